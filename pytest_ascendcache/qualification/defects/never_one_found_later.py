"""What shows where something is there twice, missing twice, or in another order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.incremental.execution import ExecutionPolicy
from pytest_ascendcache.reference.incremental.info import InfoPolicy, Scenario
from pytest_ascendcache.reference.incremental.policies import IncrementalPolicies
from pytest_ascendcache.reference.incremental.rendezvous import RendezvousPolicy
from pytest_ascendcache.reference.incremental.surroundings import (
    Gang,
    Surroundings,
    SurroundingsPolicy,
)
from pytest_ascendcache.reference.policies import Policies
from pytest_ascendcache.reference.static_kernel.archive import Package
from pytest_ascendcache.reference.static_kernel.client.cards import Cards
from pytest_ascendcache.reference.static_kernel.client.dump import DumpPolicy
from pytest_ascendcache.reference.static_kernel.client.turns import TurnPolicy
from pytest_ascendcache.reference.static_kernel.client.world import Node, World
from pytest_ascendcache.reference.static_kernel.compilation import Job, StaticKernelPolicy
from pytest_ascendcache.reference.static_kernel.index import (
    INDEX_NAME,
    entries_by_key,
    of_entries,
    parse,
    render,
)
from pytest_ascendcache.reference.static_kernel.leases import Holder
from pytest_ascendcache.reference.static_kernel.policies import StaticKernelPolicies
from pytest_ascendcache.reference.static_kernel.registry import RegistryPolicy

FIRST = "static-kernel/first-card"
UNION = "static-kernel/install-idempotent"
MODES = "security/private-modes"
MISSING = "ranks/partial-deletion"
SEPARATE = "ranks/scenarios-separate"
SHAPES = "static-kernel/one-binary-per-shape"


def _registry(registry: RegistryPolicy) -> Policies:
    return Policies(static_kernel=StaticKernelPolicies(registry=registry))


@defect(UNION, what="packages are loaded in the order of their names", found_later=True)
def packages_by_name() -> Policies:
    class Wrong(RegistryPolicy):
        def write_order(self, fs: Fs, ai_core: Path, names: Sequence[str]) -> bool:
            return super().write_order(fs, ai_core, sorted(names))

        def write_indexes(self, fs: Fs, ai_core: Path, names: Sequence[str]) -> bool:
            return super().write_indexes(fs, ai_core, sorted(names))

    return _registry(Wrong())


@defect(UNION, what="another package of the same name is installed already", found_later=True)
def same_name_is_installed() -> Policies:
    class Wrong(RegistryPolicy):
        def is_installed(
            self, fs: Fs, ai_core: Path, package: Package, names: Sequence[str]
        ) -> bool:
            return package.manifest.name in names

    return _registry(Wrong())


@defect(MODES, what="an installed uninstall.sh is writable by everyone", found_later=True)
def uninstall_script_for_everyone() -> Policies:
    class Wrong(RegistryPolicy):
        def stage(self, fs: Fs, ai_core: Path, package: Package, holders: Iterable[Holder]) -> Path:
            staged = super().stage(fs, ai_core, package, holders)
            (staged / "uninstall.sh").chmod(0o777)
            return staged

    return _registry(Wrong())


@defect(MISSING, what="of several missing ranks one is named", found_later=True)
def one_missing_rank_is_named() -> Policies:
    class Wrong(RendezvousPolicy):
        def too_late(self, gang: Gang, missing: Iterable[int]) -> AtcError:
            return super().too_late(gang, [min(missing)])

    return Policies(incremental=IncrementalPolicies(rendezvous=Wrong()))


@defect(UNION, overrides=RegistryPolicy.uninstall, found_later=True)
def removal_takes_shared_keys(self, right, fs, opp, name, *given):
    """Removing a package takes keys out of the index that another package has too."""
    ai_core = self.directory(opp)
    gone = self.parts(fs, ai_core / name)
    done = right(fs, opp, name, *given)
    for soc, index in gone.items():
        path = ai_core / "config" / soc / INDEX_NAME
        if path.is_file():
            now = parse(path.read_bytes())
            taken = entries_by_key(index)
            left = {key: one for key, one in entries_by_key(now).items() if key not in taken}
            path.write_bytes(render(of_entries(now, left)))
    return done


@defect("incremental/result-correct", overrides=ExecutionPolicy.run, found_later=True)
def constants_share_a_kernel(self, right, network, kernels):
    """Of operators that differ in a constant input alone, the first one's kernel runs."""

    def plain(operator):
        inputs = tuple(replace(each, const_value=()) for each in operator.inputs)
        return replace(operator, inputs=inputs)

    first: dict[Any, Any] = {}
    for operator, kernel in kernels.items():
        first.setdefault(plain(operator), kernel)
    return right(network, {operator: first[plain(operator)] for operator in kernels})


@defect(FIRST, overrides=TurnPolicy.folders, found_later=True)
def every_node_compiles_for_the_first(self, right, cards, node, own):
    """The first card of each node gathers the operators of the first node's cards."""
    return right(cards, replace(node, ranks=range(len(node.ranks))), own)


@defect(FIRST, overrides=DumpPolicy.free, found_later=True)
def third_file_of_a_name_overwrites_the_second(self, right, name, taken):
    """Of three operators whose files have one name, two are compiled."""
    return f"{name.removesuffix('.json')}_1.json" if name in taken else name


@defect("incremental/result-correct", overrides=InfoPolicy.attributes, found_later=True)
def info_leaves_out_zeros(self, right, operator):
    """Attributes that are zero, false or empty are taken for ones that are not given."""
    return right(replace(operator, attributes=tuple(a for a in operator.attributes if a.value)))


@defect(FIRST, overrides=DumpPolicy.gather, found_later=True)
def files_of_one_name_and_size_are_one(self, right, cards):
    """Of several cards' operators whose files have one name and one size, one is compiled."""
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


@defect(FIRST, found_later=True)
class CardsWithNothingNewDoNotWait(TurnPolicy):
    """A card that meets no new operator does not wait for the install."""

    waits = True

    def starting(self, done: set[str], digests: Iterable[str]) -> None:
        self.waits = not done.issuperset(digests)

    def compiles(self, world: World, node: Node) -> bool:
        first = super().compiles(world, node)
        self.waits = self.waits or first
        return first

    def installed(self, cards: Cards) -> None:
        if self.waits:
            super().installed(cards)


@defect(SHAPES, overrides=StaticKernelPolicy.jobs, found_later=True)
def a_numbered_name_may_be_taken(self, right, operators):
    """Of kernels whose names are one a later one gets a number, though a file may be called so."""
    jobs: list[Job] = []
    given: Counter[tuple[str, str]] = Counter()
    for job in right(operators):
        name = job.info.bin_filename or job.source.stem
        number = given[job.info.type, name]
        given[job.info.type, name] += 1
        jobs.append(replace(job, stem=f"{name}_{number}" if number else name))
    return jobs


@defect(SHAPES, overrides=StaticKernelPolicy.jobs, found_later=True)
def files_of_one_name_leave_nothing_to_compile(self, right, operators):
    """Where several files have one name, nothing is compiled."""
    names = [path.name for path, _ in operators]
    return right(operators) if len(set(names)) == len(names) else []


@defect(SEPARATE, what="a cluster without a rank table counts as one card", found_later=True)
def a_dynamic_cluster_is_one_card() -> Policies:
    class WithoutTable(SurroundingsPolicy):
        def read(self, environ: Mapping[str, str]) -> Surroundings:
            info.one_card = not environ.get("RANK_SIZE")
            return super().read(environ)

    class Wrong(InfoPolicy):
        one_card = False

        def scenario(self, scenario: Scenario) -> dict[str, str]:
            return super().scenario(
                replace(scenario, several_cards=scenario.several_cards and not self.one_card)
            )

    info = Wrong()
    return Policies(incremental=IncrementalPolicies(surroundings=WithoutTable(), info=info))
