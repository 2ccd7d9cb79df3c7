"""Clients of static kernels that do something wrong."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.static_kernel.client.cards import Cards, CardsPolicy
from pytest_ascendcache.reference.static_kernel.client.config import ConfigPolicy, Profiling
from pytest_ascendcache.reference.static_kernel.client.dump import DumpPolicy
from pytest_ascendcache.reference.static_kernel.client.package_cache import PackageCachePolicy
from pytest_ascendcache.reference.static_kernel.client.packages import PackagePolicy
from pytest_ascendcache.reference.static_kernel.client.tree import TreePolicy
from pytest_ascendcache.reference.static_kernel.client.turns import TurnPolicy
from pytest_ascendcache.reference.static_kernel.client.world import WorldPolicy
from pytest_ascendcache.reference.static_kernel.leases import LEASES
from pytest_ascendcache.reference.static_kernel.registry import AI_CORE

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


@defect(OFF, overrides=ConfigPolicy.wants)
def static_kernels_always_on(self, right, config):
    """Static kernels are compiled whether they are asked for or not."""
    return config.mode == "reduce-overhead"


@defect(TREE, overrides=TreePolicy.name)
def folders_without_process(self, right, moment, *_):
    """Folders are named by the second, and without the process."""
    return f"{moment:%Y%m%d%H%M%S}_outputs"


@defect(TREE, overrides=DumpPolicy.recorded)
def targets_not_in_the_full_set(self, right, records):
    """The folder of all operators lacks some that are targets."""
    return records[1:]


@defect(TREE, overrides=TreePolicy.tidy)
def working_folders_stay(*_):
    """What is only needed while it compiles stays in the document's tree."""


@defect(DIRECTORY, overrides=TreePolicy.build_directory)
def default_is_working_directory(self, right, given, *_):
    """The default is the working directory, not the script's."""
    return right(given, Path.cwd())


@defect(DIRECTORY, overrides=TreePolicy.usable)
def missing_build_directory_is_made(self, right, text, path):
    """A build directory that is missing is made."""
    path.mkdir(parents=True, exist_ok=True)


@defect(DIRECTORY, overrides=TreePolicy.build_directory)
def build_directory_through_links(self, right, given, script):
    """Links and '..' in the build directory are followed."""
    path = Path(given) if given else script
    self.usable(str(path), path)
    return path


@defect(MODE, overrides=ConfigPolicy.mode)
def every_mode(*_):
    """Static kernels are compiled in every mode."""


@defect(PROFILER, overrides=ConfigPolicy.profiler)
def profiler_not_looked_at(*_):
    """The profiler's settings are not looked at."""


@defect(PROFILER, found_later=True)
class ProfilersAreLookedForOnce(ConfigPolicy):
    """A profiler that begins behind the first network is not looked for."""

    looked = False

    def profiler(self, profiling: Profiling) -> None:
        if not self.looked:
            super().profiler(profiling)
        self.looked = True


@defect(PROFILER, overrides=ConfigPolicy.profiler)
def every_profiler_refused(self, right, profiling):
    """Any profiler that records operators is refused."""
    right(replace(profiling, skip_first=0))


@defect(PRODUCTS, overrides=ConfigPolicy.product)
def every_product(*_):
    """Static kernels are compiled for every chip."""


@defect(LOCAL, overrides=WorldPolicy.local_size)
def local_world_size_does_not_divide(self, right, environ, world):
    """A LOCAL_WORLD_SIZE that does not divide the number of cards is taken."""
    text = environ.get("LOCAL_WORLD_SIZE", "")
    fits = text.isdigit() and int(text) > 0
    return min(int(text), world.size) if fits else right(environ, world)


@defect(LOCAL, overrides=WorldPolicy.local_size)
def local_world_size_guessed(self, right, environ, world):
    """Without LOCAL_WORLD_SIZE all cards are taken for one node's."""
    return right({"LOCAL_WORLD_SIZE": str(world.size), **environ}, world)


@defect(LOCAL, overrides=CardsPolicy.open)
def local_world_size_not_compared(self, right, world, *_):
    """Cards do not notice that their LOCAL_WORLD_SIZE differs."""
    return right(world, "1")


@defect(LOCAL, overrides=CardsPolicy.agree, found_later=True)
def multiples_of_local_world_size_agree(self, right, theirs, ours):
    """A LOCAL_WORLD_SIZE that is a multiple of rank 0's, and that not 1, goes with it."""
    if right(theirs, ours):
        return True
    numbers = all(isinstance(each, str) and each.isdigit() for each in (theirs, ours))
    return numbers and int(ours) > 1 and int(theirs) % int(ours) == 0


@defect(FIRST, overrides=TurnPolicy.compiles)
def rank_0_instead_of_first_card(self, right, world, *_):
    """Rank 0 compiles for everybody, the first cards of other nodes do not."""
    return world.rank == 0


@defect(FIRST, overrides=TurnPolicy.compiles)
def every_card_compiles(*_):
    """Every card compiles and installs for itself."""
    return True


@defect(FIRST, overrides=TurnPolicy.installed)
def cards_do_not_wait(*_):
    """The other cards do not wait for the install."""


@defect(FIRST, found_later=True)
class CardsAreInStepAfterTheFirstGraph(TurnPolicy):
    """At the first graph alone the cards wait until all of them have their kernels."""

    graphs = 0

    def reselected(self, cards: Cards) -> None:
        self.graphs += 1
        if self.graphs == 1:
            super().reselected(cards)


@defect(FIRST, overrides=CardsPolicy.patience)
def cards_wait_for_ever(*_):
    """The cards wait for ever."""
    return 86_400.0


@defect(FIRST, overrides=DumpPolicy.free)
def gathered_files_overwrite(self, right, name, *_):
    """Of files with one name that differ the last one is compiled."""
    return name


@defect(FIRST, overrides=DumpPolicy.gather)
def only_own_operators(self, right, cards):
    """The first card compiles its own operators only."""
    return dict(next(iter(cards)))


@defect(SHAPES, overrides=TurnPolicy.finished)
def nothing_remembered(*_):
    """What a process has compiled is compiled again."""


@defect(FAILED, overrides=TurnPolicy.starting)
def remembered_before_success(self, right, done, digests):
    """Operators count as compiled before they are."""
    done.update(digests)


@defect(FAILED, overrides=PackagePolicy.made)
def op_compiler_failure_ignored(self, right, directory, *_):
    """That op_compiler failed is not looked at."""
    return sorted(directory.glob("*.run"))


@defect(VERIFIED, overrides=PackageCachePolicy.matches)
def cached_package_not_verified(*_):
    """A package of an earlier process is used without a look at its digest."""
    return True


@defect(RESULT, overrides=PackagePolicy.install)
def packages_not_installed(*_):
    """Packages are made and not installed."""


@defect(EXIT, overrides=PackagePolicy.uninstall)
def never_uninstalled(*_):
    """What was installed stays."""
    return ""


@defect(EXIT, overrides=PackagePolicy.opp)
def signals_leave_packages(self, right, environ):
    """A process that is told to end by a signal leaves its packages."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    return right(environ)


@defect(ENDS, overrides=PackagePolicy.opp)
def signals_are_swallowed(self, right, environ):
    """A process that is told to end goes on."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return right(environ)


@defect(EXIT, overrides=PackagePolicy.clean)
def dead_owners_not_cleaned(*_):
    """Packages of killed processes are never cleaned up."""
    return []


@defect(EXIT, overrides=PackagePolicy.install)
def recorded_after_install(self, right, owned, environ, cards):
    """Who installed a package is recorded only once it is installed."""
    content = owned.record.read_bytes()
    self.forget(owned.record)
    right(owned, environ, cards)
    owned.record.parent.mkdir(parents=True, exist_ok=True)
    owned.record.write_bytes(content)


@defect(EXIT, overrides=PackagePolicy.clean)
def living_owners_cleaned(self, right, opp, environ):
    """A start takes every process for dead, and cleans away the packages of living ones."""
    for record in self.records(opp):
        for lease in (opp / AI_CORE / record.parent.name / LEASES).glob("*"):
            lease.unlink()
        self.uninstall(opp, Path(f"{record.parent.name}.run"), environ)
        self.forget(record)
    return []


@defect(EXIT, overrides=PackagePolicy.clean)
def everything_cleaned(self, right, opp, environ):
    """A start cleans away everything that is installed."""
    ai_core = opp / "static_kernel" / "ai_core"
    for script in sorted(ai_core.glob("*/uninstall.sh")):
        self.uninstall(opp, Path(f"{script.parent.name}.run"), environ)
    for record in self.records(opp):
        self.forget(record)
    return []


@defect(TREE, RESULT, overrides=DumpPolicy.is_target)
def no_targets(*_):
    """No operator is a target, so that nothing is compiled."""
    return False
