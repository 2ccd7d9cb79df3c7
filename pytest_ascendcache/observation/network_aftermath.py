"""What runs of networks and of static kernels show of harm, and the runs made after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pytest_ascendcache.caches import InstalledKernels, TornIndex
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.contract.ranks import is_rank_id
from pytest_ascendcache.observation.aftermath import FROM_OUTSIDE, LATER_RUNS, LOOKED_AT
from pytest_ascendcache.observation.evidence import Evidence, NotDecidable, Sighting
from pytest_ascendcache.operators.network import Network
from pytest_ascendcache.toolchains import StaticRequest, StaticResult, TrainRequest

if TYPE_CHECKING:
    from pytest_ascendcache.observation.client_run import ClientRun
    from pytest_ascendcache.observation.network_run import NetworkRun


_DIGITS = 5
"""Of ranks that no toolchain has a reason to refuse."""


class WitnessedNetworks(Protocol):
    """What a witness needs of the networks it watches, see ``NetworkUnderTest``."""

    cache: Path
    evidence: Evidence

    def request(self, network: Network, rank: int | str | None = None) -> TrainRequest:
        """What a run of a network would start."""

    def again(self, request: TrainRequest) -> NetworkRun:
        """One more run, which no witness looks at."""

    def new_directory(self) -> Path:
        """A directory for a run's files."""

    def kernels(self, rank: int | str = 0) -> Mapping[str, Any]:
        """The kernels of a rank by stem."""

    def mark(self, rank: int | str = 0) -> None:
        """Mark the kernels of a rank."""


class WitnessedKernels(Protocol):
    """What a witness needs of the static kernels it watches, see ``StaticKernelsUnderTest``."""

    opp: Path
    evidence: Evidence

    def known_packages(self) -> list[Path]:
        """Packages that were made."""

    def installation(self, package: Path, opp: Path | None = None) -> StaticRequest:
        """What would install a package."""

    def attempt(self, request: StaticRequest) -> StaticResult:
        """Run one process to its end."""


class NetworkWitness:
    """Watches the runs of one ``NetworkUnderTest`` for harm."""

    def __init__(self, networks: WitnessedNetworks) -> None:
        self._networks = networks
        self._runs: deque[NetworkRun] = deque(maxlen=LOOKED_AT)

    def note(self, run: NetworkRun) -> None:
        """Remember a run."""
        self._runs.append(run)
        self._networks.evidence.ran(self)

    def seen(self) -> list[Sighting]:
        """See :class:`~pytest_ascendcache.observation.evidence.Witness`."""
        found = []
        for run in self._runs:
            found += _ending("the rank", run.returncode, run.result.ending)
            if run.result.outputs is not None and run.wrong:
                name, how = next(iter(run.wrong.items()))
                what = f"the output {name} of a network {how}"
                found.append(Sighting(Harm.WRONG_RESULT, what))
        return found

    def afterwards(self) -> Sighting | None:
        """See :class:`~pytest_ascendcache.observation.evidence.Witness`.

        Runs of the last network by one rank on its own, where the last one kept its kernels.
        """
        if not self._runs:
            return None
        last = self._runs[-1]
        rank = last.result.request.environment.get("RANK_ID", "")
        # A text that may well be refused tells nothing of the cache.
        rank = rank if is_rank_id(rank) and len(rank) <= _DIGITS else ""
        base = self._networks.request(last.network, rank or None)
        run = last
        for _ in range(LATER_RUNS):
            run = self._networks.again(replace(base, directory=self._networks.new_directory()))
            if run.returncode is None:
                return Sighting(Harm.HANG, f"a later run {run.result.ending}")
            if run.result.outputs is not None and run.wrong:
                return Sighting(Harm.WRONG_RESULT, f"a later run has wrong outputs: {run.wrong}")
            if run.succeeded and run.was_marked and not run.compiled:
                break
            if run.succeeded:
                self._mark(base, rank or 0)
        return _told_by(run, last)

    def _mark(self, request: TrainRequest, rank: str | int) -> None:
        """Mark what was kept; nothing kept is told by the next run.

        One rank on its own may keep it as rank 0, whatever it is called; what another rank kept
        may be marked already.
        """
        if Path(request.environment["MS_COMPILER_CACHE_PATH"]) != self._networks.cache:
            return
        refused = []
        there = [each for each in sorted({str(rank), "0"}) if self._networks.kernels(each)]
        for each in there:
            try:
                self._networks.mark(each)
            except NotDecidable as error:
                refused.append(error)
        if there and len(refused) == len(there):
            raise refused[0]


def _told_by(run: NetworkRun, last: NetworkRun) -> Sighting | None:
    if not run.succeeded:
        return Sighting(Harm.UNUSABLE, f"every later run fails: it {run.result.ending}")
    if not run.was_marked:
        return Sighting(Harm.UNUSABLE, "no later run keeps a kernel")
    if run.compiled:
        again = ", ".join(sorted(run.compiled))
        return Sighting(Harm.UNUSABLE, f"every later run compiles {again} again")
    if not last.succeeded:
        return Sighting(Harm.LOST_WORK, f"a run {last.result.ending}; later ones work")
    return None


class StaticWitness:
    """Watches op_compiler, packages and clients for harm."""

    def __init__(self, kernels: WitnessedKernels) -> None:
        self._kernels = kernels
        self._results: deque[StaticResult] = deque(maxlen=LOOKED_AT)
        self._runs: deque[ClientRun] = deque(maxlen=LOOKED_AT)

    def note(self, result: StaticResult) -> None:
        """Remember how a process ended."""
        self._results.append(result)
        self._kernels.evidence.ran(self)

    def observed(self, run: ClientRun) -> None:
        """Remember a client's outputs."""
        self._runs.append(run)

    def seen(self) -> list[Sighting]:
        """See :class:`~pytest_ascendcache.observation.evidence.Witness`."""
        from pytest_ascendcache.observation.client_run import WRONG

        found = []
        for result in self._results:
            found += _ending("the process", result.returncode, result.ending)
        for run in self._runs:
            for number in range(len(run.networks)):
                if run.outputs(number) is None:
                    continue
                wrong = [name for name, how in run.origins(number).items() if how == WRONG]
                found += [
                    Sighting(Harm.WRONG_RESULT, f"the output {name} of a network is wrong")
                    for name in wrong
                ]
        return found

    def afterwards(self) -> Sighting | None:
        """See :class:`~pytest_ascendcache.observation.evidence.Witness`.

        A package that installs itself, and an index whose kernels are there. One that is installed
        already says nothing of others where it is refused.
        """
        installed = InstalledKernels(self._kernels.opp)
        known, there = self._kernels.known_packages(), installed.packages
        packages = [each for each in known if each.stem not in there]
        for number in range(LATER_RUNS if packages else 0):
            result = self._kernels.attempt(self._kernels.installation(packages[0]))
            if result.succeeded:
                break
            if number == LATER_RUNS - 1:
                what = f"no package can be installed any more: it {result.ending}"
                return Sighting(Harm.UNUSABLE, what)
        try:
            index = installed.index()
        except TornIndex as error:
            return Sighting(Harm.UNUSABLE, f"the index cannot be read: {error}")
        lost = [entry for entry in index.values() if not installed.kernel(entry).is_file()]
        if lost:
            return Sighting(Harm.LOST_WORK, f"{len(lost)} kernels of the index are not there")
        return None


def _ending(who: str, code: int | None, ending: str) -> list[Sighting]:
    """Harm in how a process ended."""
    if code is None:
        return [Sighting(Harm.HANG, f"{who} {ending}")]
    if code < 0 and code not in FROM_OUTSIDE:
        return [Sighting(Harm.CRASH, f"{who} {ending}")]
    return []
