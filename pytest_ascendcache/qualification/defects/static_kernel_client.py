"""Clients of static kernels that do something wrong."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import replace
from glob import glob
from pathlib import Path

from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.static_kernel.client.cards import (
    MEETING,
    CardsPolicy,
    TurnPolicy,
    WaitingCard,
)
from pytest_ascendcache.reference.static_kernel.client.config import ConfigPolicy
from pytest_ascendcache.reference.static_kernel.client.dump import DumpPolicy, digest
from pytest_ascendcache.reference.static_kernel.client.errors import StaticKernelError
from pytest_ascendcache.reference.static_kernel.client.package_cache import PackageCachePolicy
from pytest_ascendcache.reference.static_kernel.client.packages import ClientPackagePolicy
from pytest_ascendcache.reference.static_kernel.client.tree import TreePolicy
from pytest_ascendcache.reference.static_kernel.client.world import WorldPolicy
from pytest_ascendcache.reference.static_kernel.leases import LEASES, Holder
from pytest_ascendcache.reference.static_kernel.registry import AI_CORE
from pytest_ascendcache.reference.static_kernel.selection import SelectionPolicy

TREE = "static-kernel/output-tree"
DIRECTORY = "static-kernel/build-directory"
PROFILER = "static-kernel/profiler"
LOCAL = "static-kernel/local-world-size"
FIRST = "static-kernel/first-card"
FAILED = "static-kernel/failed-operator"
RESULT = "static-kernel/result-correct"
SHAPES = "static-kernel/one-binary-per-shape"
EXIT = "static-kernel/uninstalled-at-exit"


@defect("static-kernel/off-by-default", overrides=ConfigPolicy.wants)
def static_kernels_always_on(self, right, config):
    """Static kernels are compiled whether or not the option asks for them."""
    return config.mode == "reduce-overhead"


@defect(SHAPES, overrides=ConfigPolicy.wants, found_later=True)
def static_kernels_need_a_home(self, right, config):
    """Without a home directory no static kernels are compiled."""
    return right(config) and Path(os.environ.get("HOME") or "/nonexistent").is_dir()


@defect(TREE, overrides=TreePolicy.name)
def folders_without_process(self, right, moment, *_):
    """Folders are named by the second, without the process id."""
    return f"{moment:%Y%m%d%H%M%S}_outputs"


@defect(TREE, overrides=DumpPolicy.recorded)
def targets_not_in_the_full_set(self, right, records):
    """The folder of all operators lacks some that are targets."""
    return records[1:]


@defect(TREE, overrides=TreePolicy.tidy)
def working_folders_stay(*_):
    """Working folders stay in the output tree."""


@defect(DIRECTORY, overrides=TreePolicy.build_directory)
def default_is_working_directory(self, right, given, *_):
    """The default build directory is the working directory, not the script's."""
    return right(given, Path.cwd())


@defect(FIRST, overrides=TreePolicy.build_directory, found_later=True)
def build_directories_stay_relative(self, right, given, *more):
    """Other cards are told a relative build directory as it is, and look for it in their own."""
    path = right(given, *more)
    return Path(given) if given else path


@defect(DIRECTORY, overrides=TreePolicy.usable)
def missing_build_directory_is_made(self, right, text, path):
    """A missing build directory is created."""
    path.mkdir(parents=True, exist_ok=True)


@defect("static-kernel/mode", overrides=ConfigPolicy.mode)
def every_mode(*_):
    """Static kernels are compiled in every mode."""


@defect(PROFILER, overrides=ConfigPolicy.profiler)
def profiler_not_looked_at(*_):
    """The profiler's settings are ignored."""


@defect(PROFILER, overrides=ConfigPolicy.profiler, memory={"looked": False}, found_later=True)
def profilers_are_looked_for_once(self, right, profiling):
    """A profiler that starts after the first network goes unnoticed."""
    if not self.memory.looked:
        right(profiling)
    self.memory.looked = True


@defect(PROFILER, overrides=ConfigPolicy.profiler)
def every_profiler_refused(self, right, profiling):
    """Any profiler that records operators is refused."""
    right(replace(profiling, skip_first=0))


@defect("static-kernel/products", overrides=ConfigPolicy.product)
def every_product(*_):
    """Static kernels are compiled for every chip."""


@defect("static-kernel/products", overrides=ConfigPolicy.product, found_later=True)
def names_of_chips_that_go_on_are_refused(self, right, soc):
    """Chips of Atlas A2 whose name goes on after its digit have no static kernels."""
    right(soc if soc[-1].isdigit() and "-" not in soc else "Ascend910B")


@defect(LOCAL, overrides=WorldPolicy.local_size)
def local_world_size_does_not_divide(self, right, environ, world):
    """A LOCAL_WORLD_SIZE that does not divide the number of cards is accepted."""
    text = environ.get("LOCAL_WORLD_SIZE", "")
    fits = text.isdigit() and int(text) > 0
    return min(int(text), world.size) if fits else right(environ, world)


@defect(LOCAL, overrides=WorldPolicy.local_size)
def local_world_size_guessed(self, right, environ, world):
    """Without LOCAL_WORLD_SIZE all cards count as cards of one node."""
    return right({"LOCAL_WORLD_SIZE": str(world.size), **environ}, world)


@defect(LOCAL, overrides=CardsPolicy.open)
def local_world_size_not_compared(self, right, world, *_):
    """Cards do not notice that their LOCAL_WORLD_SIZE differs."""
    return right(world, "1")


@defect(LOCAL, overrides=CardsPolicy.agree, found_later=True)
def multiples_of_local_world_size_agree(self, right, theirs, ours):
    """A multiple of rank 0's LOCAL_WORLD_SIZE is accepted, unless that is 1."""
    if right(theirs, ours):
        return True
    numbers = all(isinstance(each, str) and each.isdigit() for each in (theirs, ours))
    return numbers and int(ours) > 1 and int(theirs) % int(ours) == 0


@defect(FIRST, overrides=TurnPolicy.compiles)
def rank_0_instead_of_first_card(self, right, world, *_):
    """Rank 0 compiles for all nodes; the first cards of other nodes do not."""
    return world.rank == 0


@defect(FIRST, overrides=TurnPolicy.compiles)
def every_card_compiles(*_):
    """Every card compiles and installs for itself."""
    return True


@defect(FIRST, overrides=TurnPolicy.installed)
def cards_do_not_wait(*_):
    """The other cards do not wait for the install."""


@defect(FIRST, overrides=TurnPolicy.reselected, memory={"graphs": 0}, found_later=True)
def cards_are_in_step_after_the_first_graph(self, right, cards):
    """Only at the first graph do the cards wait until all of them have their kernels."""
    self.memory.graphs += 1
    if self.memory.graphs == 1:
        right(cards)


@defect(FIRST, overrides=TurnPolicy.starting, memory={"waits": True}, found_later=True)
def cards_with_nothing_new_do_not_wait(self, right, done, digests):
    """A card that meets no new operator does not wait for the install."""
    self.memory.waits = not done.issuperset(digests)


@cards_with_nothing_new_do_not_wait.also(TurnPolicy.compiles)
def _(self, right, world, node):
    first = right(world, node)
    self.memory.waits = self.memory.waits or first
    return first


@cards_with_nothing_new_do_not_wait.also(TurnPolicy.installed)
def _(self, right, cards):
    if self.memory.waits:
        right(cards)


@defect(FIRST, overrides=TurnPolicy.starting, memory={"has_news": True})
def a_first_card_compiles_for_itself_or_not_at_all(self, right, done, digests):
    """A first card that meets no new operator does not compile those of others."""
    self.memory.has_news = not done.issuperset(digests)
    return right(done, digests)


@a_first_card_compiles_for_itself_or_not_at_all.also(TurnPolicy.compiles)
def _(self, right, world, node):
    return self.memory.has_news and right(world, node)


@defect(FIRST, overrides=CardsPolicy.patience)
def cards_wait_for_ever(*_):
    """Cards wait for each other for ever."""
    return 86_400.0


@defect(FIRST, overrides=TurnPolicy.installed, harm=Harm.UNUSABLE, found_later=True)
def three_minutes_for_a_compile(self, right, cards):
    """Cards wait for the first card's compile only as long as for each other."""
    cards.exchange({}, MEETING)


@defect(FIRST, overrides=CardsPolicy.open, harm=Harm.UNUSABLE, found_later=True)
class ThreeMinutesForRank0(WaitingCard):
    """Cards but rank 0 wait for three minutes at most."""

    def exchange(self, news, seconds):
        return super().exchange(news, min(seconds, MEETING))


@defect(
    FIRST,
    overrides=CardsPolicy.patience,
    memory={"begun": None},
    harm=Harm.UNUSABLE,
    found_later=True,
)
def patience_is_for_the_whole_run(self, right, world, seconds):
    """Cards wait for half an hour in all: their waits are counted from the first one."""
    now = time.monotonic()
    self.memory.begun = self.memory.begun or now
    return right(world, seconds) - (now - self.memory.begun)


@defect(FIRST, overrides=CardsPolicy.patience, harm=Harm.UNUSABLE, found_later=True)
def rank_0_waits_for_a_minute(self, right, world, seconds):
    """Rank 0 waits for a third of the time."""
    return right(world, seconds) / (1 if world.rank else 3)


@defect(FIRST, overrides=WorldPolicy.read, harm=Harm.WRONG_RESULT, found_later=True)
def every_job_meets_at_one_port(self, right, environ):
    """MASTER_PORT is ignored."""
    return replace(right(environ), port=29500)


@defect(FIRST, overrides=WorldPolicy.read, harm=Harm.UNUSABLE, found_later=True)
def other_cards_look_for_rank_0_at_home(self, right, environ):
    """Cards but rank 0 ignore MASTER_ADDR."""
    world = right(environ)
    return replace(world, host="127.0.0.1") if world.rank else world


@defect(FIRST, overrides=TurnPolicy.folders, found_later=True)
def every_node_compiles_for_the_first(self, right, cards, node, own):
    """The first card of each node gathers the operators of the first node's cards."""
    return right(cards, range(len(node)), own)


@defect(FIRST, overrides=TurnPolicy.folders, found_later=True)
def cards_in_the_middle_are_left_out(self, right, cards, node, own):
    """Only the first and the last card of a node have their operators compiled."""
    return right(cards, [*dict.fromkeys((node[0], node[-1]))], own)


@defect(FIRST, overrides=DumpPolicy.gather, memory={"own": ()}, found_later=True)
def kept_packages_are_the_first_cards(self, right, cards):
    """Whether a kept package fits is asked of the first card's operators alone."""
    folders = list(cards)
    self.memory.own = tuple(map(digest, folders[0].values()))
    return right(folders)


@kept_packages_are_the_first_cards.also(PackageCachePolicy.key)
def _(self, right, operators, soc, compiler):
    return right(self.memory.own or operators, soc, compiler)


@defect(FIRST, overrides=DumpPolicy.gather)
def only_own_operators(self, right, cards):
    """The first card compiles its own operators only."""
    return dict(next(iter(cards)))


@defect(FIRST, overrides=DumpPolicy.free)
def gathered_files_overwrite(self, right, name, *_):
    """Of different files with one name only the last is compiled."""
    return name


@defect(FIRST, overrides=DumpPolicy.free, found_later=True)
def third_file_of_a_name_overwrites_the_second(self, right, name, taken):
    """Of three files with one name only two are compiled."""
    return f"{name.removesuffix('.json')}_1.json" if name in taken else name


@defect(FIRST, overrides=DumpPolicy.gather, found_later=True)
def files_of_one_name_and_size_are_one(self, right, cards):
    """Of files with one name and one size, from several cards, only the first is compiled."""
    seen: set[tuple[str, int]] = set()
    kept = []
    for files in cards:
        new = {name: data for name, data in files.items() if (name, len(data)) not in seen}
        seen.update((name, len(data)) for name, data in new.items())
        kept.append(new)
    return right(kept)


@defect(FIRST, overrides=DumpPolicy.is_target, found_later=True)
def scalars_are_no_targets(self, right, operator):
    """An operator whose first input is a scalar gets no static kernel."""
    return right(operator) and bool(operator.inputs[0].shape)


@defect(TREE, RESULT, overrides=DumpPolicy.is_target)
def no_targets(*_):
    """No operator is a target: nothing is compiled."""
    return False


@defect("static-kernel/one-binary-per-shape", overrides=TurnPolicy.finished)
def nothing_remembered(*_):
    """A process compiles operators again that it has already compiled."""


@defect(FAILED, overrides=TurnPolicy.starting)
def remembered_before_success(self, right, done, digests):
    """Operators count as compiled before their compile has succeeded."""
    done.update(digests)


@defect(FAILED, overrides=ClientPackagePolicy.made)
def op_compiler_failure_ignored(self, right, directory, *_):
    """A failure of op_compiler is ignored."""
    return sorted(directory.glob("*.run"))


@defect("static-kernel/verified", overrides=PackageCachePolicy.matches)
def cached_package_not_verified(*_):
    """The digest of an earlier process's package is not checked."""
    return True


@defect(RESULT, overrides=ClientPackagePolicy.install)
def packages_not_installed(*_):
    """Packages are made but not installed."""


@defect(EXIT, overrides=ClientPackagePolicy.uninstall)
def never_uninstalled(*_):
    """Installed packages are never uninstalled."""
    return ""


@defect(EXIT, overrides=ClientPackagePolicy.release, found_later=True)
def packages_whose_output_is_gone_stay(self, right, owned, *arguments):
    """What a killed process installed is forgotten once its output is deleted."""
    if owned.package.is_file():
        return right(owned, *arguments)
    self.forget(owned.record)
    return ""


@defect(EXIT, overrides=ClientPackagePolicy.opp)
def signals_leave_packages(self, right, environ):
    """A process that a signal ends leaves its packages."""
    _handle_signals(signal.SIG_DFL)
    return right(environ)


@defect("static-kernel/ends-when-told", overrides=ClientPackagePolicy.opp)
def signals_are_swallowed(self, right, environ):
    """A process ignores signals to end."""
    _handle_signals(signal.SIG_IGN)
    return right(environ)


def _handle_signals(handler):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


@defect(EXIT, overrides=ClientPackagePolicy.clean)
def dead_owners_not_cleaned(*_):
    """Packages of killed processes are never removed."""
    return []


@defect(EXIT, overrides=ClientPackagePolicy.install)
def recorded_after_install(self, right, owned, environ, cards):
    """The owner of a package is recorded only after the install."""
    content = owned.record.read_bytes()
    self.forget(owned.record)
    right(owned, environ, cards)
    owned.record.parent.mkdir(parents=True, exist_ok=True)
    owned.record.write_bytes(content)


@defect(EXIT, overrides=ClientPackagePolicy.clean)
def living_owners_cleaned(self, right, opp, environ):
    """A starting process removes the packages of processes that still run."""
    for record in self.records(opp):
        _take(self, record, opp, environ)
    return []


@defect(EXIT, overrides=ClientPackagePolicy.clean, found_later=True)
def other_containers_are_dead(self, right, opp, environ):
    """A starting process takes those of other containers for dead."""
    own = Path("/proc/self/ns/pid").stat().st_ino
    for record in self.records(opp):
        holder = Holder.parse(record.name)
        if holder is not None and holder.space != own:
            _take(self, record, opp, environ)
    return right(opp, environ)


def _take(packages, record, opp, environ):
    """Remove a package, even one that is in use."""
    for lease in (opp / AI_CORE / record.parent.name / LEASES).glob("*"):
        lease.unlink()
    packages.uninstall(opp, Path(f"{record.parent.name}.run"), environ)
    packages.forget(record)


@defect(EXIT, overrides=ClientPackagePolicy.clean)
def everything_cleaned(self, right, opp, environ):
    """A starting process removes every installed package."""
    ai_core = opp / "static_kernel" / "ai_core"
    for script in sorted(ai_core.glob("*/uninstall.sh")):
        self.uninstall(opp, Path(f"{script.parent.name}.run"), environ)
    for record in self.records(opp):
        self.forget(record)
    return []


@defect(RESULT, overrides=PackageCachePolicy.key, found_later=True)
def packages_of_another_chip_are_kept(self, right, operators, _, compiler):
    """A card installs the package that an earlier process has compiled for another chip."""
    return right(operators, "", compiler)


@defect(FAILED, overrides=ClientPackagePolicy.install, found_later=True)
def installs_that_fail_are_not_told(self, right, *arguments):
    """A card goes on where the package of its kernels does not install itself."""
    with suppress(StaticKernelError):
        right(*arguments)


@defect(SHAPES, overrides=SelectionPolicy.read_index, memory={"found": {}})
def index_is_read_once(self, right, fs, opp, soc):
    """A process reads the index of installed kernels once."""
    found = self.memory.found
    if soc not in found:
        found[soc] = right(fs, opp, soc)
    return found[soc]


@defect(FIRST, overrides=ClientPackagePolicy.install, also=[index_is_read_once], found_later=True)
def the_index_is_read_again_by_the_card_that_installs(self, right, owned, environ, cards):
    """Of the cards of a machine the first one alone reads the index again, after an install."""
    right(owned, environ, cards)
    self.memory.found.clear()


@defect(SHAPES, overrides=DumpPolicy.select, memory={"met": []}, found_later=True)
def met_by_file_name(self, right, files, done):
    """An operator of a later network counts as met if a file of its name was dumped before."""
    found = {
        name: data
        for name, data in right(files, done).items()
        if name.rpartition("_")[0] not in self.memory.met
    }
    self.memory.met += [name.rpartition("_")[0] for name in files]
    return found


@defect("static-kernel/one-binary-per-shape", overrides=ClientPackagePolicy.made, found_later=True)
def a_full_pipe_is_not_read(self, right, directory, ended):
    """A client waits for ever for an op_compiler that prints more than a pipe holds."""
    if len(ended.output) >= 1 << 16:
        signal.pause()
    return right(directory, ended)


@defect(DIRECTORY, overrides=ClientPackagePolicy.made)
def brackets_in_a_build_directory_match(self, right, directory, ended):
    """A build directory's name is taken for a pattern, and a package that is not found for none."""
    right(directory, ended)
    return sorted(map(Path, glob(f"{directory}/*.run")))  # noqa: PTH207 - the defect


@defect(SHAPES, overrides=ClientPackagePolicy.install, memory={"owned": []})
def a_failed_package_takes_all(self, right, owned, environ, cards):
    """A package that fails takes those of earlier networks with it, which count as compiled."""
    try:
        right(owned, environ, cards)
    except StaticKernelError:
        for each in self.memory.owned:
            self.release(each, self.opp(environ), environ)
        raise
    self.memory.owned.append(owned)


@defect(TREE, overrides=DumpPolicy.recorded, memory={"met": []})
def debug_folder_of_new_operators_alone(self, right, records):
    """The folder of all operators lacks those that an earlier network of the process had."""
    new = [each for each in records if each not in self.memory.met]
    self.memory.met += new
    return right(new)
