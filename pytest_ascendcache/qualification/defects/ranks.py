"""Incremental build on many cards, done wrongly."""

import os
import shutil
import signal
import socket
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import Override, defect
from pytest_ascendcache.reference.cache.entry import EntryFiles
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.incremental.info import InfoPolicy, KernelScenario, NetworkPhase
from pytest_ascendcache.reference.incremental.rank_directory import RankDirectoryPolicy
from pytest_ascendcache.reference.incremental.rendezvous import (
    Alone,
    Guest,
    Host,
    RendezvousPolicy,
    gang_failed,
)
from pytest_ascendcache.reference.incremental.store import KernelMetaPolicy, ReusePolicy
from pytest_ascendcache.reference.incremental.surroundings import (
    DEFAULT_TIMEOUT,
    TIMEOUTS,
    SurroundingsPolicy,
    invalid_variable,
)
from pytest_ascendcache.reference.meeting import connect

DIRECTORY = "ranks/directory"
ISOLATED = "ranks/isolated"
SCENARIOS = "ranks/scenarios-separate"
DELETION = "ranks/partial-deletion"
BAD_RANK = "ranks/bad-rank-id"
KILLED = "ranks/killed-rank"


def _named_after(variable):
    """A rank's directory is named after another variable if that is set."""

    def rank_directory(self, right, base, gang):
        text = os.environ.get(variable, "")
        return base / f"rank_{text}" if text else right(base, gang)

    return Override(RankDirectoryPolicy.rank_directory, rank_directory)


@defect(DIRECTORY)
def rank_from_device_id():
    """The rank is taken from DEVICE_ID."""
    return [_named_after("DEVICE_ID")]


@defect(DIRECTORY)
def rank_from_local_rank():
    """The rank is taken from LOCAL_RANK."""
    return [_named_after("LOCAL_RANK")]


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
    """MS_COMPILER_CACHE_PATH is ignored."""
    return Path.cwd()


@defect(DIRECTORY, overrides=SurroundingsPolicy.base)
def working_directory_by_name(self, right, environ):
    """The working directory is what PWD names, which a launcher may leave as it was."""
    return Path(environ.get("PWD", "."), environ.get("MS_COMPILER_CACHE_PATH", ""))


@defect(DIRECTORY, overrides=SurroundingsPolicy.base)
def compiler_cache_path_from_home(self, right, environ):
    """A relative MS_COMPILER_CACHE_PATH is taken from HOME."""
    named = environ.get("MS_COMPILER_CACHE_PATH")
    return Path(environ.get("HOME", "/"), named) if named else Path.cwd()


@defect(DIRECTORY, overrides=RankDirectoryPolicy.rank_directory)
def alone_without_rank(self, right, base, gang):
    """A single card has no directory rank_0."""
    return right(base, gang) if os.environ.get("RANK_ID") else base


@defect(DIRECTORY, overrides=SurroundingsPolicy.rank)
def rank_of_8_bits(self, right, environ):
    """The rank has 8 bits."""
    return right(environ) % 256


@defect(ISOLATED, overrides=ReusePolicy.find)
def ranks_help_each_other(self, right, fs, entry, inputs, info):
    """A rank that lacks a kernel takes another rank's."""
    base = entry.directory.parents[1]
    for place in (entry.directory, *sorted(base.glob("rank_*/kernel_meta"))):
        found = right(fs, EntryFiles(place, entry.stem), inputs, info)
        if found is not None:
            return found
    return None


@defect(ISOLATED, overrides=RankDirectoryPolicy.prepare, found_later=True)
def ranks_beyond_the_gang_are_tidied(self, right, fs, base, gang):
    """Rank 0 of a gang removes the kernels of ranks that the gang does not have."""
    if gang.several and gang.rank == 0:
        for each in base.glob("rank_*/kernel_meta"):
            if int(each.parent.name.removeprefix("rank_")) >= gang.size:
                shutil.rmtree(each)
    return right(fs, base, gang)


@defect(ISOLATED, overrides=KernelMetaPolicy.publish)
def ranks_publish_for_rank_0(self, right, fs, entry, data, inputs, info):
    """A rank publishes its kernels for rank 0 as well."""
    first = entry.directory.parents[1] / "rank_0" / "kernel_meta"
    if first.is_dir():
        right(fs, EntryFiles(first, entry.stem), data, inputs, info)
    return right(fs, entry, data, inputs, info)


def _scenario(**changes):
    """A rank always records some parts of its scenario in one way."""
    return Override(
        InfoPolicy.scenario, lambda self, right, scenario: right(replace(scenario, **changes))
    )


@defect(SCENARIOS)
def cards_are_not_told_apart():
    """One card uses the kernels of several, and several use those of one."""
    return [_scenario(several_cards=False)]


@defect(SCENARIOS)
def phases_are_not_told_apart():
    """Training uses the kernels of inference, and inference those of training."""
    return [_scenario(phase=NetworkPhase.TRAINING)]


@defect(SCENARIOS, overrides=InfoPolicy.scenario)
def several_cards_mix_phases(self, right, scenario):
    """With several cards, training and inference share a kernel."""
    return {**right(scenario), **({"phase": "any"} if scenario.several_cards else {})}


@defect(SCENARIOS, overrides=InfoPolicy.scenario)
def inference_mixes_cards(self, right, scenario):
    """For inference, one card and several share a kernel."""
    fields = right(scenario)
    return {**fields, "cards": "any"} if fields["phase"] == "inference" else fields


@defect(SCENARIOS, overrides=SurroundingsPolicy.read, memory={"one_card": False}, found_later=True)
def a_dynamic_cluster_is_one_card(self, right, environ):
    """A cluster without a rank table counts as one card."""
    self.memory.one_card = not environ.get("RANK_SIZE")
    return right(environ)


@a_dynamic_cluster_is_one_card.also(InfoPolicy.scenario)
def _(self, right, scenario):
    several = scenario.several_cards and not self.memory.one_card
    return right(replace(scenario, several_cards=several))


@defect(SCENARIOS, overrides=InfoPolicy.stem)
def scenarios_overwrite_each_other(self, right, inputs):
    """Kernels of all scenarios have one name, although .info records the scenario."""
    return right(replace(inputs, scenario=KernelScenario(False, NetworkPhase.TRAINING)))


@defect(SCENARIOS, overrides=ReusePolicy.find)
def inference_falls_back_to_training(self, right, fs, entry, inputs, info):
    """Inference uses kernels of training if it has none of its own."""
    found = right(fs, entry, inputs, info)
    if found is not None or inputs.scenario.phase is NetworkPhase.TRAINING:
        return found
    training = replace(inputs, scenario=replace(inputs.scenario, phase=NetworkPhase.TRAINING))
    other = EntryFiles(entry.directory, info.stem(training))
    found = right(fs, other, training, info)
    # The same symbol, so that it can be called: names are as long as digits allow.
    if found is None or len(other.stem) != len(entry.stem):
        return None
    return found.replace(other.stem.encode(), entry.stem.encode())


@defect(DELETION, KILLED, overrides=RendezvousPolicy.open)
def ranks_do_not_meet(*_):
    """Ranks do not wait for each other."""
    return Alone()


@defect(
    DELETION,
    overrides=RankDirectoryPolicy.prepare,
    memory={"linked": False},
    found_later=True,
)
def linked_ranks_do_not_meet(self, right, *arguments):
    """A rank whose directory is a link keeps no kernels, and does not meet the others either."""
    directory = right(*arguments)
    self.memory.linked = directory is None
    return directory


@linked_ranks_do_not_meet.also(RendezvousPolicy.open)
def _(self, right, gang):
    meeting = right(gang)
    meet = meeting.meet
    meeting.meet = lambda: self.memory.linked or meet()
    return meeting


@defect(DELETION, overrides=RendezvousPolicy.patience)
def ranks_wait_for_ever(*_):
    """Ranks wait for ever."""
    return 86_400.0


@defect(DELETION, overrides=RendezvousPolicy.patience)
def connect_timeout_ignored(self, right, gang):
    """HCCL_CONNECT_TIMEOUT is ignored."""
    return right(replace(gang, timeout=DEFAULT_TIMEOUT))


@defect(DELETION, overrides=RendezvousPolicy.patience)
def connect_timeout_in_minutes(self, right, gang):
    """HCCL_CONNECT_TIMEOUT counts minutes."""
    return 60 * right(gang)


@defect(DELETION, overrides=RendezvousPolicy.patience)
def connect_timeout_in_tenths(self, right, gang):
    """HCCL_CONNECT_TIMEOUT counts tenths of a second."""
    return right(gang) / 10


@defect(DELETION, overrides=SurroundingsPolicy.timeout, found_later=True)
def ten_seconds_by_default(self, right, environ):
    """Without HCCL_CONNECT_TIMEOUT a rank waits for ten seconds."""
    return right(environ) if environ.get("HCCL_CONNECT_TIMEOUT") else 10


@defect(DELETION, overrides=RendezvousPolicy.open, found_later=True)
def every_gang_meets_at_one_port(self, right, gang):
    """MS_SCHED_PORT is ignored."""
    return right(replace(gang, port=8118))


@defect(DELETION, overrides=RendezvousPolicy.open, found_later=True)
def others_look_for_rank_0_at_home(self, right, gang):
    """Ranks but rank 0 ignore MS_SCHED_HOST."""
    return right(replace(gang, host="127.0.0.1") if gang.rank else gang)


@defect(DELETION, overrides=SurroundingsPolicy.timeout, found_later=True)
def ninety_minutes_are_enough(self, right, environ):
    """Ranks wait for an hour and a half at most, whatever the timeout."""
    return min(right(environ), 5400)


@defect(DELETION, overrides=RendezvousPolicy.patience, found_later=True)
def ten_minutes_at_most(self, right, gang):
    """Ranks wait for ten minutes at most."""
    return min(gang.timeout, 600) * gang.second


@defect(DELETION, overrides=SurroundingsPolicy.timeout)
def connect_timeout_unchecked(self, right, environ):
    """A timeout out of range is accepted."""
    try:
        return int(environ.get("HCCL_CONNECT_TIMEOUT") or DEFAULT_TIMEOUT)
    except ValueError:
        return DEFAULT_TIMEOUT


@defect(DELETION, found_later=True)
class PatienceFromTheStart(RendezvousPolicy):
    """A rank's patience is counted from the start of its process."""

    def __init__(self):
        self._begun = time.monotonic()

    def patience(self, gang):
        return super().patience(gang) - (time.monotonic() - self._begun)


@defect(DELETION, overrides=RendezvousPolicy.open, found_later=True)
class ConnectionsRenewPatience(Host):
    """Whatever connects renews the patience of rank 0."""

    def _listen(self):
        heard = super()._listen()
        if heard:
            self._deadline = None
        return heard


@defect(DELETION, overrides=RendezvousPolicy.open, found_later=True)
class PausesDouble(Guest):
    """Rank 0 is looked for after ever longer pauses, the last of which ends with the timeout."""

    def _connect(self, deadline):
        pause = 0.01
        while (now := time.monotonic()) < deadline:
            met = connect(self._gang.host, self._gang.port, min(deadline, now + 0.01))
            if met is not None:
                return met
            time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
            pause *= 2
        raise self._policy.too_late(self._gang, self._missing)


@defect(BAD_RANK, overrides=RendezvousPolicy.open, found_later=True)
class ArrivalsAreCounted(Host):
    """Rank 0 counts arrivals, even if two are of one rank."""

    def _arrive(self, descriptor, message):
        rank = message.get("rank")
        if not {"late", "failed"} & set(message) and rank not in self._missing and self._missing:
            message = {**message, "rank": min(self._missing)}
        super()._arrive(descriptor, message)


def _too_late(text):
    """The error for ranks that do not come has another text."""

    def too_late(self, right, gang, missing):
        everybody = ", ".join(f"rank[{each}]" for each in range(gang.size or 1))
        late = ", ".join(f"rank[{each}]" for each in sorted(missing))
        return AtcError("EI0006", text.format(everybody=everybody, late=late))

    return Override(RendezvousPolicy.too_late, too_late)


@defect(DELETION, KILLED)
def error_names_no_rank():
    """The error names no rank."""
    return [_too_late("Getting socket times out. Raise HCCL_CONNECT_TIMEOUT.")]


@defect(DELETION, KILLED)
def error_names_every_rank():
    """The error names every rank."""
    return [_too_late("{everybody}: socket timeout. Raise HCCL_CONNECT_TIMEOUT.")]


@defect(DELETION)
def error_names_no_variable():
    """The error does not name HCCL_CONNECT_TIMEOUT."""
    return [_too_late("Getting socket times out. {late} did not come.")]


@defect(DELETION, overrides=RendezvousPolicy.too_late, found_later=True)
def one_missing_rank_is_named(self, right, gang, missing):
    """Of several missing ranks the error names one."""
    return right(gang, [min(missing)])


@defect(DELETION, overrides=RendezvousPolicy.open)
def late_ranks_are_given_up(self, right, gang):
    """A rank that waited in vain runs the network all the same."""
    meeting = right(gang)
    meet = meeting.meet

    def meet_or_go_on():
        try:
            meet()
        except AtcError as error:
            print(error)

    meeting.meet = meet_or_go_on
    return meeting


@defect(DELETION, overrides=RendezvousPolicy.open)
def absent_rank_0_is_an_error(self, right, gang):
    """A rank fails if rank 0 does not listen yet."""
    if gang.several and gang.rank:
        try:
            socket.create_connection((gang.host, gang.port)).close()
        except OSError:
            raise self.too_late(gang, {0}) from None
    return right(gang)


@defect(BAD_RANK, overrides=SurroundingsPolicy.rank)
def rank_joined_unchecked(self, right, environ):
    """RANK_ID is joined to the path as it is, as in MindSpore."""
    text = environ.get("RANK_ID", "")
    return int(text) if text.isascii() and text.isdigit() else 0


@rank_joined_unchecked.also(RankDirectoryPolicy.rank_directory)
def _(self, right, base, gang):
    return base / f"rank_{os.environ.get('RANK_ID') or '0'}"


@defect(BAD_RANK, overrides=SurroundingsPolicy.rank)
def bad_rank_is_rank_0(self, right, environ):
    """A RANK_ID that is no rank counts as 0."""
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
    """Digits of any script are accepted in RANK_ID."""
    text = environ.get("RANK_ID", "")
    return int(text) if text.isdigit() else right(environ)


def _by_int(applies):
    """Texts of RANK_ID to which a rule ``applies`` are read with int(), if it can."""

    def rank(self, right, environ):
        text = environ.get("RANK_ID", "")
        with suppress(ValueError):
            text = str(int(text)) if applies(text) else text
        return right({**environ, "RANK_ID": text})

    return Override(SurroundingsPolicy.rank, rank)


@defect(BAD_RANK, found_later=True)
def leading_zeros_merge_ranks():
    """RANK_ID 03 is rank 3."""
    return [_by_int(lambda text: text.isascii() and text.isdigit())]


@defect(BAD_RANK, found_later=True)
def rank_by_int():
    """RANK_ID is whatever Python's int() takes."""
    return [_by_int(lambda text: True)]


@defect(BAD_RANK, found_later=True)
def digits_of_any_alphabet():
    """Digits of other alphabets are a RANK_ID."""
    return [_by_int(lambda text: text.isdecimal() and not text.isascii())]


@defect(BAD_RANK, overrides=SurroundingsPolicy.rank)
def bad_rank_without_a_name(self, right, environ):
    """The error does not name the wrong variable."""
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
    """The directory of a killed rank stays claimed for ever."""
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


@defect(DELETION, overrides=RendezvousPolicy.open)
class ConnectionsCountAsRanks(Host):
    """Every connection to rank 0 counts as a rank."""

    @property
    def _missing(self):
        others = self._gang.others
        return frozenset() if len(self._hub.lines) >= len(others) else super()._missing

    def _arrive(self, descriptor, message):
        if self._missing:
            super()._arrive(descriptor, message)

    def _start(self):
        self._hub.tell({"go": True})


@defect(BAD_RANK, overrides=RendezvousPolicy.open, found_later=True)
class SecondOfANumberTakesItsPlace(Host):
    """A second process of a rank takes the place of the first, and both go on."""

    def _arrive(self, descriptor, message):
        for each in [one for one, rank in self._ranks.items() if rank == message.get("rank")]:
            del self._ranks[each]
        super()._arrive(descriptor, message)

    def _start(self):
        self._hub.tell({"go": True})


@defect(DELETION, overrides=RendezvousPolicy.open, found_later=True)
class RanksOfAnySizeMeet(Host):
    """A rank of a gang of another size stands for the one that is missing."""

    def _arrive(self, descriptor, message):
        super()._arrive(descriptor, {**message, "size": self._gang.size})


@defect(KILLED, overrides=RendezvousPolicy.open, found_later=True)
class EndOfRank0IsAGo(Guest):
    """A rank whose connection to rank 0 ends runs the network."""

    def _heard(self, line, deadline):
        try:
            return super()._heard(line, deadline)
        except AtcError as error:
            if "rank[0] ended" in str(error):
                return True
            raise


@defect(DELETION, overrides=RendezvousPolicy.open, found_later=True)
class TheDeadCountAsMet(Host):
    """Rank 0 counts a rank that was killed while it waited."""

    def _hear(self, descriptor):
        had_met = descriptor in self._ranks
        try:
            super()._hear(descriptor)
        except AtcError:
            if not had_met or descriptor in self._ranks:
                raise


@defect(DELETION, overrides=RendezvousPolicy.open)
class WhoGaveUpCountsAsMet(Host):
    """Rank 0 counts a rank that gave up waiting while rank 0 still compiled."""

    def _arrive(self, descriptor, message):
        if descriptor not in self._ranks:
            super()._arrive(descriptor, message)


@defect(DELETION, overrides=RendezvousPolicy.open, found_later=True)
class PortScansEndGangs(Host):
    """Whatever connects to rank 0 and leaves ends the gang."""

    def _hear(self, descriptor):
        super()._hear(descriptor)
        if descriptor not in self._hub.lines:
            raise gang_failed("a connection ended")


@defect(DELETION, overrides=RendezvousPolicy.open, found_later=True)
class AResetEndsRank0(Host):
    """A connection that is reset, as by a probe, ends rank 0."""

    def _hear(self, descriptor):
        connection = self._hub.lines[descriptor].connection
        if error := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, os.strerror(error))
        super()._hear(descriptor)


@defect(ISOLATED, overrides=RankDirectoryPolicy.rank_directory, found_later=True)
def unfinished_files_of_ranks_that_begin_alike_go(self, right, base, gang):
    """A rank removes unfinished files of all ranks whose number begins like its own."""
    for left in base.glob(f"rank_{gang.rank}*/kernel_meta/.*.temp"):
        left.unlink(missing_ok=True)
    return right(base, gang)


@defect(ISOLATED, overrides=ReusePolicy.find, found_later=True)
def kernels_of_directories_that_begin_alike(self, right, fs, entry, *more):
    """A rank without a kernel uses one of a directory whose name begins like that of its own."""
    own = entry.directory.parent
    others = sorted(own.parent.glob(f"{own.name}*/{entry.directory.name}"))
    places = [entry, *(replace(entry, directory=each) for each in others)]
    found = (right(fs, each, *more) for each in places)
    return next((each for each in found if each is not None), None)


@defect(DELETION, overrides=SurroundingsPolicy.timeout, found_later=True)
def timeouts_are_compared_as_text(self, right, environ):
    """HCCL_CONNECT_TIMEOUT is compared with its limits as text, so that 900 is too large."""
    text = environ.get("HCCL_CONNECT_TIMEOUT", "")
    if text and not str(TIMEOUTS[0]) <= text <= str(TIMEOUTS[1]):
        raise invalid_variable("HCCL_CONNECT_TIMEOUT", text, "it is out of its range")
    return right(environ)
