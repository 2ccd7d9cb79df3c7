"""Incremental build on many cards, done wrongly."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import defect, having
from pytest_ascendcache.reference.cache.entry import EntryFiles
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.incremental.info import (
    InfoPolicy,
    Phase,
    Scenario,
)
from pytest_ascendcache.reference.incremental.rank_directory import RankDirectoryPolicy
from pytest_ascendcache.reference.incremental.rendezvous import Alone, Meeting, RendezvousPolicy
from pytest_ascendcache.reference.incremental.store import KernelMetaPolicy, ReusePolicy
from pytest_ascendcache.reference.incremental.surroundings import (
    DEFAULT_TIMEOUT,
    Gang,
    SurroundingsPolicy,
    invalid_variable,
)
from pytest_ascendcache.reference.policies import Policies

DIRECTORY = "ranks/directory"
ISOLATED = "ranks/isolated"
SCENARIOS = "ranks/scenarios-separate"
DELETION = "ranks/partial-deletion"
BAD_RANK = "ranks/bad-rank-id"
KILLED = "ranks/killed-rank"


class DirectoryFrom(RankDirectoryPolicy):
    """Names the rank's directory after another variable, where that is set."""

    def __init__(self, variable: str) -> None:
        self._variable = variable

    def rank_directory(self, base: Path, gang: Gang) -> Path:
        text = os.environ.get(self._variable, "")
        return base / f"rank_{text}" if text else super().rank_directory(base, gang)


@defect(DIRECTORY, what="the rank is taken from DEVICE_ID")
def rank_from_device_id() -> Policies:
    return having(DirectoryFrom("DEVICE_ID"))


@defect(DIRECTORY, what="the rank is taken from LOCAL_RANK")
def rank_from_local_rank() -> Policies:
    return having(DirectoryFrom("LOCAL_RANK"))


@defect(DIRECTORY, ISOLATED, overrides=RankDirectoryPolicy.rank_directory)
def rank_is_always_0(self, right, base, *_):
    """Every rank uses rank_0."""
    return base / "rank_0"


@defect(DIRECTORY, overrides=RankDirectoryPolicy.rank_directory)
def empty_rank_is_a_name(self, right, base, *_):
    """An empty RANK_ID gives the directory rank_."""
    return base / f"rank_{os.environ.get('RANK_ID', '0')}"


@defect(DIRECTORY, overrides=SurroundingsPolicy.base)
def compiler_cache_path_ignored(*_):
    """MS_COMPILER_CACHE_PATH is not looked at."""
    return Path.cwd()


@defect(DIRECTORY, overrides=SurroundingsPolicy.base)
def compiler_cache_path_from_home(self, right, environ):
    """A relative MS_COMPILER_CACHE_PATH is taken from HOME."""
    named = environ.get("MS_COMPILER_CACHE_PATH")
    return Path(environ.get("HOME", "/"), named) if named else Path.cwd()


@defect(DIRECTORY, overrides=RankDirectoryPolicy.rank_directory)
def alone_without_rank(self, right, base, gang):
    """A card on its own has no directory rank_0."""
    return right(base, gang) if os.environ.get("RANK_ID") else base


@defect(ISOLATED, overrides=ReusePolicy.find)
def ranks_help_each_other(self, right, fs, entry, inputs, info):
    """A rank without a kernel takes another rank's."""
    base = entry.directory.parents[1]
    for place in (entry.directory, *sorted(base.glob("rank_*/kernel_meta"))):
        found = right(fs, EntryFiles(place, entry.stem), inputs, info)
        if found is not None:
            return found
    return None


@defect(ISOLATED, overrides=RankDirectoryPolicy.prepare, found_later=True)
def ranks_beyond_the_gang_are_tidied(self, right, fs, base, gang):
    """Rank 0 of several removes the kernels of ranks that its gang does not have."""
    if gang.several and gang.rank == 0:
        for each in base.glob("rank_*/kernel_meta"):
            if int(each.parent.name.removeprefix("rank_")) >= gang.size:
                shutil.rmtree(each)
    return right(fs, base, gang)


@defect(ISOLATED, overrides=KernelMetaPolicy.publish)
def ranks_publish_for_rank_0(self, right, fs, entry, data, inputs, info):
    """What one rank compiles is published for rank 0 as well."""
    first = entry.directory.parents[1] / "rank_0" / "kernel_meta"
    if first.is_dir():
        right(fs, EntryFiles(first, entry.stem), data, inputs, info)
    return right(fs, entry, data, inputs, info)


class OneScenario(InfoPolicy):
    """Does not tell some scenarios from others."""

    def __init__(self, **forgotten: object) -> None:
        self._forgotten = forgotten

    def scenario(self, scenario: Scenario) -> dict[str, str]:
        return super().scenario(replace(scenario, **self._forgotten))  # type: ignore[arg-type]


@defect(SCENARIOS, what="one card uses the kernels of several, and the other way round")
def cards_are_not_told_apart() -> Policies:
    return having(OneScenario(several_cards=False))


@defect(SCENARIOS, what="training uses the kernels of inference, and the other way round")
def phases_are_not_told_apart() -> Policies:
    return having(OneScenario(phase=Phase.TRAINING))


@defect(SCENARIOS, overrides=InfoPolicy.stem)
def scenarios_overwrite_each_other(self, right, inputs):
    """The scenario is recorded, but kernels of all have one name."""
    return right(replace(inputs, scenario=Scenario(False, Phase.TRAINING)))


@defect(SCENARIOS, overrides=ReusePolicy.find)
def inference_falls_back_to_training(self, right, fs, entry, inputs, info):
    """Inference takes what training compiled where it has nothing itself."""
    found = right(fs, entry, inputs, info)
    if found is not None or inputs.scenario.phase is Phase.TRAINING:
        return found
    training = replace(inputs, scenario=replace(inputs.scenario, phase=Phase.TRAINING))
    other = EntryFiles(entry.directory, info.stem(training))
    found = right(fs, other, training, info)
    # The same symbol, so that it can be called: names are as long as digits allow.
    if found is None or len(other.stem) != len(entry.stem):
        return None
    return found.replace(other.stem.encode(), entry.stem.encode())


@defect(DELETION, KILLED, overrides=RendezvousPolicy.open)
def ranks_do_not_meet(*_):
    """Warm ranks do not wait."""
    return Alone()


@defect(DELETION, overrides=RendezvousPolicy.patience)
def ranks_wait_for_ever(*_):
    """Ranks wait for ever."""
    return 86_400.0


@defect(DELETION, overrides=RendezvousPolicy.patience)
def connect_timeout_ignored(self, right, gang):
    """HCCL_CONNECT_TIMEOUT is not looked at."""
    return right(replace(gang, timeout=DEFAULT_TIMEOUT))


@defect(DELETION, overrides=SurroundingsPolicy.timeout, found_later=True)
def ninety_minutes_are_enough(self, right, environ):
    """No rank waits for longer than an hour and a half, whatever its timeout says."""
    return min(right(environ), 5400)


@defect(DELETION, overrides=SurroundingsPolicy.timeout)
def connect_timeout_unchecked(self, right, environ):
    """A timeout out of range is taken as it is."""
    try:
        return int(environ.get("HCCL_CONNECT_TIMEOUT") or DEFAULT_TIMEOUT)
    except ValueError:
        return DEFAULT_TIMEOUT


class Says(RendezvousPolicy):
    """Says something else of ranks that do not come."""

    def __init__(self, text: str) -> None:
        self._text = text

    def too_late(self, gang: Gang, missing: Iterable[int]) -> AtcError:
        everybody = ", ".join(f"rank[{each}]" for each in range(gang.size or 1))
        late = ", ".join(f"rank[{each}]" for each in sorted(missing))
        return AtcError("EI0006", self._text.format(everybody=everybody, late=late))


@defect(DELETION, KILLED, what="the error names no rank")
def error_names_no_rank() -> Policies:
    return having(Says("Getting socket times out. Raise HCCL_CONNECT_TIMEOUT."))


@defect(DELETION, KILLED, what="the error names every rank")
def error_names_every_rank() -> Policies:
    return having(Says("{everybody}: socket timeout. Raise HCCL_CONNECT_TIMEOUT."))


@defect(DELETION, what="the error does not name HCCL_CONNECT_TIMEOUT")
def error_names_no_variable() -> Policies:
    return having(Says("Getting socket times out. {late} did not come."))


@defect(DELETION, what="a rank that waited in vain runs the network all the same")
def late_ranks_are_given_up() -> Policies:
    class Patient(Meeting):
        def __init__(self, meeting: Meeting) -> None:
            self._meeting = meeting

        def meet(self) -> None:
            try:
                self._meeting.meet()
            except AtcError as error:
                print(error)

        def abandon(self, reason: str) -> None:
            self._meeting.abandon(reason)

    class Wrong(RendezvousPolicy):
        def open(self, gang: Gang) -> Meeting:
            return Patient(super().open(gang))

    return having(Wrong())


@defect(BAD_RANK, what="RANK_ID is joined to the path as it is (as in MindSpore)")
def rank_joined_unchecked() -> Policies:
    class Lenient(SurroundingsPolicy):
        def rank(self, environ: Mapping[str, str]) -> int:
            text = environ.get("RANK_ID", "")
            return int(text) if text.isascii() and text.isdigit() else 0

    class Raw(RankDirectoryPolicy):
        def rank_directory(self, base: Path, gang: Gang) -> Path:
            return base / f"rank_{os.environ.get('RANK_ID') or '0'}"

    return having(Lenient(), Raw())


@defect(BAD_RANK, overrides=SurroundingsPolicy.rank)
def bad_rank_is_rank_0(self, right, environ):
    """What is no rank is rank 0."""
    try:
        return right(environ)
    except AtcError:
        return 0


@defect(BAD_RANK, overrides=SurroundingsPolicy.rank)
def negative_rank_accepted(self, right, environ):
    """The sign of a rank is dropped."""
    return right({"RANK_ID": environ.get("RANK_ID", "").lstrip("-")})


@defect(BAD_RANK, overrides=SurroundingsPolicy.rank)
def any_digits_are_a_rank(self, right, environ):
    """Digits of any script are a rank."""
    text = environ.get("RANK_ID", "")
    return int(text) if text.isdigit() else right(environ)


@defect(BAD_RANK, overrides=SurroundingsPolicy.rank)
def bad_rank_without_a_name(self, right, environ):
    """The error does not say which variable is wrong."""
    try:
        return right(environ)
    except AtcError:
        raise AtcError("EI0001", "An environment variable is invalid.") from None


@defect(BAD_RANK, overrides=RankDirectoryPolicy.claimed)
@contextmanager
def repeated_ranks_merge(*_):
    """Two processes of one rank share its directory."""
    yield


@defect(KILLED, overrides=RendezvousPolicy.open)
def rank_leaves_a_process_behind(self, right, gang):
    """A rank's helper process outlives it."""
    if gang.several and os.fork() == 0:
        signal.pause()
    return right(gang)


@defect(KILLED, overrides=RankDirectoryPolicy.claimed)
@contextmanager
def claim_outlives_its_holder(self, right, fs, base, gang):
    """A killed rank's directory stays claimed for ever."""
    claim = self.rank_directory(base, gang) / ".claim"
    if gang.several:
        try:
            claim.touch(exist_ok=False)
        except FileExistsError:
            raise invalid_variable("RANK_ID", gang.rank, "it is taken") from None
    try:
        yield
    finally:
        claim.unlink(missing_ok=True)


def _scenario(change: Callable[[Scenario, dict[str, str]], dict[str, str]]) -> Policies:
    """Another idea of what separates scenarios."""

    class Wrong(InfoPolicy):
        def scenario(self, scenario: Scenario) -> dict[str, str]:
            said = super().scenario(scenario)
            return {**said, **change(scenario, said)}

    return having(Wrong())


@defect(SCENARIOS, what="several cards use one kernel for training and inference")
def several_cards_mix_phases() -> Policies:
    return _scenario(lambda scenario, _: {"phase": "any"} if scenario.several_cards else {})


@defect(SCENARIOS, what="for inference one card and several use one kernel")
def inference_mixes_cards() -> Policies:
    return _scenario(lambda _, said: {"cards": "any"} if said["phase"] == "inference" else {})


@defect(DIRECTORY, overrides=SurroundingsPolicy.rank)
def rank_of_8_bits(self, right, environ):
    """The rank has 8 bits."""
    return right(environ) % 256


@defect(DELETION, overrides=RendezvousPolicy.open)
def absent_rank_0_is_an_error(self, right, gang):
    """A rank does not wait for a rank 0 that nobody listens for yet."""
    if gang.several and gang.rank:
        try:
            socket.create_connection((gang.host, gang.port)).close()
        except OSError:
            raise self.too_late(gang, {0}) from None
    return right(gang)
