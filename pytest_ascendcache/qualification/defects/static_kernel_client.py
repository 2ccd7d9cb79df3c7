"""Clients of static kernels that do something wrong."""

from __future__ import annotations

import signal
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.operators.opinfo import OperatorInfo
from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.policies import Policies
from pytest_ascendcache.reference.static_kernel.client.cards import Cards, CardsPolicy
from pytest_ascendcache.reference.static_kernel.client.config import (
    CompilerConfig,
    ConfigPolicy,
    Profiling,
)
from pytest_ascendcache.reference.static_kernel.client.dump import DumpPolicy, Files
from pytest_ascendcache.reference.static_kernel.client.package_cache import PackageCachePolicy
from pytest_ascendcache.reference.static_kernel.client.packages import Owned, PackagePolicy
from pytest_ascendcache.reference.static_kernel.client.policies import ClientPolicies
from pytest_ascendcache.reference.static_kernel.client.programs import Ended
from pytest_ascendcache.reference.static_kernel.client.tree import Outputs, TreePolicy
from pytest_ascendcache.reference.static_kernel.client.turns import TurnPolicy
from pytest_ascendcache.reference.static_kernel.client.world import Node, World, WorldPolicy

OFF = "static-kernel/off-by-default"
TREE = "static-kernel/output-tree"
DIRECTORY = "static-kernel/build-directory"
MODE = "static-kernel/mode"
PROFILER = "static-kernel/profiler"
PRODUCTS = "static-kernel/products"
LOCAL = "static-kernel/local-world-size"
FIRST = "static-kernel/first-card"
SHAPES = "static-kernel/one-binary-per-shape"
FAILED = "static-kernel/failed-operator"
VERIFIED = "static-kernel/verified"
RESULT = "static-kernel/result-correct"
EXIT = "static-kernel/uninstalled-at-exit"
ENDS = "static-kernel/ends-when-told"


def with_client(**policies: object) -> Policies:
    """The reference whose client decides something otherwise."""
    return Policies(client=ClientPolicies(**policies))  # type: ignore[arg-type]


@defect(OFF, what="static kernels are compiled whether they are asked for or not")
def static_kernels_always_on() -> Policies:
    class Wrong(ConfigPolicy):
        def wants(self, config: CompilerConfig) -> bool:
            return config.mode == "reduce-overhead"

    return with_client(config=Wrong())


@defect(TREE, what="folders are named by the second, and without the process")
def folders_without_process() -> Policies:
    class Wrong(TreePolicy):
        def name(self, moment: datetime, pid: int, later: bool) -> str:
            return f"{moment:%Y%m%d%H%M%S}_outputs"

    return with_client(tree=Wrong())


@defect(TREE, what="the folder of all operators lacks some that are targets")
def targets_not_in_the_full_set() -> Policies:
    class Wrong(DumpPolicy):
        def recorded(self, records: list[OperatorInfo]) -> list[OperatorInfo]:
            return records[1:]

    return with_client(dump=Wrong())


@defect(TREE, what="what is only needed while it compiles stays in the document's tree")
def working_folders_stay() -> Policies:
    class Wrong(TreePolicy):
        def tidy(self, outputs: Outputs) -> None:
            pass

    return with_client(tree=Wrong())


@defect(DIRECTORY, what="the default is the working directory, not the script's")
def default_is_working_directory() -> Policies:
    class Wrong(TreePolicy):
        def build_directory(self, given: str | None, script: Path) -> Path:
            return super().build_directory(given, Path.cwd())

    return with_client(tree=Wrong())


@defect(DIRECTORY, what="a build directory that is missing is made")
def missing_build_directory_is_made() -> Policies:
    class Wrong(TreePolicy):
        def usable(self, text: str, path: Path) -> None:
            path.mkdir(parents=True, exist_ok=True)

    return with_client(tree=Wrong())


@defect(DIRECTORY, what="links and '..' in the build directory are followed")
def build_directory_through_links() -> Policies:
    class Wrong(TreePolicy):
        def build_directory(self, given: str | None, script: Path) -> Path:
            path = Path(given) if given else script
            self.usable(str(path), path)
            return path

    return with_client(tree=Wrong())


@defect(MODE, what="static kernels are compiled in every mode")
def every_mode() -> Policies:
    class Wrong(ConfigPolicy):
        def mode(self, config: CompilerConfig) -> None:
            pass

    return with_client(config=Wrong())


@defect(PROFILER, what="the profiler's settings are not looked at")
def profiler_not_looked_at() -> Policies:
    class Wrong(ConfigPolicy):
        def profiler(self, profiling: Profiling) -> None:
            pass

    return with_client(config=Wrong())


@defect(PROFILER, what="any profiler that records operators is refused")
def every_profiler_refused() -> Policies:
    class Wrong(ConfigPolicy):
        def profiler(self, profiling: Profiling) -> None:
            super().profiler(replace(profiling, skip_first=0))

    return with_client(config=Wrong())


@defect(PRODUCTS, what="static kernels are compiled for every chip")
def every_product() -> Policies:
    class Wrong(ConfigPolicy):
        def product(self, soc: str) -> None:
            pass

    return with_client(config=Wrong())


@defect(LOCAL, what="a LOCAL_WORLD_SIZE that does not divide the number of cards is taken")
def local_world_size_does_not_divide() -> Policies:
    class Wrong(WorldPolicy):
        def local_size(self, environ: Mapping[str, str], world: World) -> int:
            text = environ.get("LOCAL_WORLD_SIZE", "")
            fits = text.isdigit() and int(text) > 0
            return min(int(text), world.size) if fits else super().local_size(environ, world)

    return with_client(world=Wrong())


@defect(LOCAL, what="without LOCAL_WORLD_SIZE all cards are taken for one node's")
def local_world_size_guessed() -> Policies:
    class Wrong(WorldPolicy):
        def local_size(self, environ: Mapping[str, str], world: World) -> int:
            return super().local_size({"LOCAL_WORLD_SIZE": str(world.size), **environ}, world)

    return with_client(world=Wrong())


@defect(LOCAL, what="cards do not notice that their LOCAL_WORLD_SIZE differs")
def local_world_size_not_compared() -> Policies:
    class Wrong(CardsPolicy):
        def open(self, world: World, local_size: str) -> Cards:
            return super().open(world, "1")

    return with_client(cards=Wrong())


@defect(FIRST, what="rank 0 compiles for everybody, the first cards of other nodes do not")
def rank_0_instead_of_first_card() -> Policies:
    class Wrong(TurnPolicy):
        def compiles(self, world: World, node: Node) -> bool:
            return world.rank == 0

    return with_client(turns=Wrong())


@defect(FIRST, what="every card compiles and installs for itself")
def every_card_compiles() -> Policies:
    class Wrong(TurnPolicy):
        def compiles(self, world: World, node: Node) -> bool:
            return True

    return with_client(turns=Wrong())


@defect(FIRST, what="the other cards do not wait for the install")
def cards_do_not_wait() -> Policies:
    class Wrong(TurnPolicy):
        def installed(self, cards: Cards) -> None:
            pass

    return with_client(turns=Wrong())


@defect(FIRST, what="the cards wait for ever")
def cards_wait_for_ever() -> Policies:
    class Wrong(CardsPolicy):
        def patience(self, world: World, seconds: float) -> float:
            return 86_400.0

    return with_client(cards=Wrong())


@defect(FIRST, what="of files with one name that differ the last one is compiled")
def gathered_files_overwrite() -> Policies:
    class Wrong(DumpPolicy):
        def free(self, name: str, taken: Collection[str]) -> str:
            return name

    return with_client(dump=Wrong())


@defect(FIRST, what="the first card compiles its own operators only")
def only_own_operators() -> Policies:
    class Wrong(DumpPolicy):
        def gather(self, cards: Iterable[Files]) -> dict[str, bytes]:
            return dict(next(iter(cards)))

    return with_client(dump=Wrong())


@defect(SHAPES, what="what a process has compiled is compiled again")
def nothing_remembered() -> Policies:
    class Wrong(TurnPolicy):
        def finished(self, done: set[str], digests: Iterable[str]) -> None:
            pass

    return with_client(turns=Wrong())


@defect(FAILED, what="operators count as compiled before they are")
def remembered_before_success() -> Policies:
    class Wrong(TurnPolicy):
        def starting(self, done: set[str], digests: Iterable[str]) -> None:
            done.update(digests)

    return with_client(turns=Wrong())


@defect(FAILED, what="that op_compiler failed is not looked at")
def op_compiler_failure_ignored() -> Policies:
    class Wrong(PackagePolicy):
        def made(self, directory: Path, ended: Ended) -> list[Path]:
            return sorted(directory.glob("*.run"))

    return with_client(package=Wrong())


@defect(VERIFIED, what="a package of an earlier process is used without a look at its digest")
def cached_package_not_verified() -> Policies:
    class Wrong(PackageCachePolicy):
        def matches(self, data: bytes, recorded: object) -> bool:
            return True

    return with_client(cache=Wrong())


@defect(RESULT, what="packages are made and not installed")
def packages_not_installed() -> Policies:
    class Wrong(PackagePolicy):
        def install(self, owned: Owned, environ: Mapping[str, str], cards: Cards) -> None:
            pass

    return with_client(package=Wrong())


@defect(EXIT, what="what was installed stays")
def never_uninstalled() -> Policies:
    class Wrong(PackagePolicy):
        def uninstall(self, opp: Path, package: Path, environ: Mapping[str, str]) -> str:
            return ""

    return with_client(package=Wrong())


@defect(EXIT, what="a process that is told to end by a signal leaves its packages")
def signals_leave_packages() -> Policies:
    class Wrong(PackagePolicy):
        def opp(self, environ: Mapping[str, str]) -> Path:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            return super().opp(environ)

    return with_client(package=Wrong())


@defect(ENDS, what="a process that is told to end goes on")
def signals_are_swallowed() -> Policies:
    class Wrong(PackagePolicy):
        def opp(self, environ: Mapping[str, str]) -> Path:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            return super().opp(environ)

    return with_client(package=Wrong())


@defect(EXIT, what="packages of killed processes are never cleaned up")
def dead_owners_not_cleaned() -> Policies:
    class Wrong(PackagePolicy):
        def clean(self, opp: Path, environ: Mapping[str, str]) -> list[str]:
            return []

    return with_client(package=Wrong())


@defect(EXIT, what="who installed a package is recorded only once it is installed")
def recorded_after_install() -> Policies:
    class Wrong(PackagePolicy):
        def install(self, owned: Owned, environ: Mapping[str, str], cards: Cards) -> None:
            content = owned.record.read_bytes()
            owned.record.unlink()
            super().install(owned, environ, cards)
            owned.record.parent.mkdir(exist_ok=True)
            owned.record.write_bytes(content)

    return with_client(package=Wrong())


@defect(EXIT, what="a start cleans away the packages of living processes")
def living_owners_cleaned() -> Policies:
    class Wrong(PackagePolicy):
        def clean(self, opp: Path, environ: Mapping[str, str]) -> list[str]:
            for record in self.records(opp):
                self.uninstall(opp, Path(f"{record.name}.run"), environ)
                self.forget(record)
            return []

    return with_client(package=Wrong())


@defect(EXIT, what="a start cleans away everything that is installed")
def everything_cleaned() -> Policies:
    class Wrong(PackagePolicy):
        def clean(self, opp: Path, environ: Mapping[str, str]) -> list[str]:
            ai_core = opp / "static_kernel" / "ai_core"
            for script in sorted(ai_core.glob("*/uninstall.sh")):
                self.uninstall(opp, Path(f"{script.parent.name}.run"), environ)
            for record in self.records(opp):
                self.forget(record)
            return []

    return with_client(package=Wrong())


@defect(TREE, RESULT, what="no operator is a target, so that nothing is compiled")
def no_targets() -> Policies:
    class Wrong(DumpPolicy):
        def is_target(self, operator: OperatorSpec) -> bool:
            return False

    return with_client(dump=Wrong())
