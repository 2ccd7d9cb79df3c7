"""The processes that a launch script starts, and which of them run at the same time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_ascendcache.release.shell_words import ShellVariable

_PROGRAM = re.compile(
    r"(?:^|[\s/])(?:python[\d.]*|torchrun|msrun|mpirun|mpiexec|deepspeed|accelerate)(?=\s|$)"
    r"|\.(?:py|sh)(?=\s|$)"
)
"""What starts a process of a job: a program, or a script that is given to one."""

_HANDLES = re.compile(
    r"awk|basename|cat|chmod|chown|cp|cut|date|diff|dirname|dos2unix|du|echo|file|find|git"
    r"|grep|head|install|less|ln|ls|md5sum|mkdir|mv|npu-smi|pgrep|pip|pip3|pkill|printf|ps"
    r"|readlink|realpath|rm|rsync|scp|sed|sha256sum|sleep|sort|stat|tail|tar|tee|touch|unzip|vi"
    r"|vim|wc|which|zip"
)
"""Programs that handle files and texts, whose names say nothing of what is started."""

_ELSEWHERE = re.compile(
    r"ansible|docker|kubectl|nerdctl|parallel|pdsh|podman|ray|sbatch|srun|ssh|su|sudo|tmux"
    r"|screen|xargs"
)
"""Programs whose processes have another environment, or other arguments, than the script says."""

_SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
_TEXT = re.compile(r"-[a-z]*c")
_COUNT = re.compile(r"(?:--nproc[-_]per[-_]node|--local_worker_num|--worker_num)[= ](\S+)")
_COUNT_OF_MPI = re.compile(r"\s-np? (\S+)")
_SETTING = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_LAUNCHERS = ("torchrun", "msrun", "mpirun", "mpiexec", "deepspeed", "accelerate")
_GIVES_RANKS = ("msrun", "deepspeed", "accelerate")


@dataclass(eq=False)
class Span:
    """When something runs, in the lane of its parent; without an end until it is waited for."""

    parent: Span | None = None
    start: int = 0
    end: float = float("inf")
    inner: list[Span] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.parent is not None:
            self.parent.inner.append(self)

    def wait(self, now: int) -> None:
        """End everything that runs in this lane."""
        for each in self.inner:
            each.end = min(each.end, now)
        self.inner.clear()

    def overlaps(self, other: Span) -> bool:
        """Return whether two spans run at the same time."""
        parents, above = list[Span](), self
        while above.parent is not None:
            parents.append(above)
            above = above.parent
        lanes = {id(each.parent): each for each in parents}
        while id(other.parent) not in lanes:
            if other.parent is None:
                return False
            other = other.parent
        mine = lanes[id(other.parent)]
        return mine is not other and mine.start <= other.end and other.start <= mine.end


@dataclass
class StartedProcess:
    """A program that a script starts. ``count`` is how many processes it makes itself, 0 if only a
    run would tell, ``path`` which branches of open questions it is in; one that ``repeats`` is in a
    loop that nobody knows the turns of."""

    line: int
    program: str
    settings: dict[str, ShellVariable]
    span: Span
    count: int = 1
    directory: str = ""
    path: tuple[tuple[int, int], ...] = ()
    repeats: bool = False

    @property
    def gives_ranks(self) -> bool:
        """Whether its processes have ranks that it gives them."""
        return self.program in _GIVES_RANKS

    def is_beside(self, other: StartedProcess) -> bool:
        """Return whether it runs while another does, wherever the script gets to both."""
        shorter = min(len(self.path), len(other.path))
        return self.path[:shorter] == other.path[:shorter] and self.span.overlaps(other.span)


def looks_like_a_start(words: Sequence[str]) -> bool:
    """Return whether a command's words say that a process of the job is started."""
    text = " ".join(words)
    return (
        bool(words)
        and _HANDLES.fullmatch(_name(words[0])) is None
        and _PROGRAM.search(text) is not None
    )


def handles(fields: Sequence[str]) -> bool:
    """Return whether a command is one that handles files and texts."""
    return _HANDLES.fullmatch(_name(fields[0])) is not None


def elsewhere(fields: Sequence[str]) -> str:
    """Return the program before the one that is started that gives it another environment."""
    for word in fields:
        if _ELSEWHERE.fullmatch(_name(word)):
            return _name(word)
        if _PROGRAM.search(word):
            return ""
    return ""


def nested_script(fields: Sequence[str]) -> str | None:
    """Return the text that a shell is given with ``-c``, by whatever it is started."""
    if elsewhere(fields):
        return None
    for at, word in enumerate(fields[:-2]):
        if _name(word) in _SHELLS and _TEXT.fullmatch(fields[at + 1]):
            return fields[at + 2]
    return None


def declared(
    fields: list[str], has: dict[str, ShellVariable], line: int
) -> tuple[list[str], dict[str, ShellVariable]]:
    """Return a command without its ``env``, and the variables that its program has by it."""
    kept = list[str]()
    at = 0
    while at < len(fields):
        word, at = fields[at], at + 1
        if _name(word) != "env" and not (word == "-x" and _name(fields[0]) == "mpirun"):
            kept.append(word)
            continue
        while at < len(fields) and (
            fields[at].startswith("-") or _SETTING.fullmatch(fields[at]) is not None
        ):
            option, at = fields[at], at + 1
            if (setting := _SETTING.fullmatch(option)) is not None:
                has = {**has, setting[1]: ShellVariable(setting[2], line, exported=True)}
            elif option in ("-i", "-", "--ignore-environment"):
                has = {}
            elif option in ("-u", "--unset") and at < len(fields):
                has = {name: each for name, each in has.items() if name != fields[at]}
                at += 1
    return kept, has


def started(
    line: int, fields: Sequence[str], has: dict[str, ShellVariable], span: Span
) -> StartedProcess:
    """Return the process of a command."""
    text = " ".join(fields)
    program = next((name for each in fields if (name := _name(each)) in _LAUNCHERS), "")
    found = [*_COUNT.findall(text), *(_COUNT_OF_MPI.findall(text) if "mpi" in program else ())]
    counts = [int(each) if each.isdecimal() else 0 for each in found]
    return StartedProcess(line, program, has, span, max(counts, default=0 if program else 1))


def _name(word: str) -> str:
    return word.rpartition("/")[2]
