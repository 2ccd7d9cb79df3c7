"""The processes that a launch script starts, and which of them run at the same time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pytest_ascendcache.release.shell_words import ShellVariable

_PROGRAM = re.compile(
    r"(?:^|[\s/])(?:python[\d.]*|torchrun|msrun|mpirun|mpiexec|deepspeed|accelerate)(?=\s|$)"
    r"|\.(?:py|sh)(?=\s|$)"
)
"""What starts a process of a job: a program, or a script that is given to one."""

_HANDLES = re.compile(
    r"awk|basename|cat|chmod|chown|cp|cut|date|diff|dirname|dos2unix|du|echo|file|find|git"
    r"|grep|head|install|kill|killall|less|ln|ls|md5sum|mkdir|mv|npu-smi|pgrep|pip|pip3|pkill|printf|ps"
    r"|readlink|realpath|rm|rsync|scp|sed|sha256sum|sleep|sort|stat|tail|tar|tee|touch|unzip|vi"
    r"|vim|wc|which|zip"
)
"""Programs that handle files and texts, whose names say nothing of what is started."""

_ELSEWHERE = re.compile(
    r"ansible|doas|docker|kubectl|nerdctl|parallel|pdsh|pkexec|podman|ray|runuser|sbatch|ssh|su|sudo"
    r"|systemd-run|tmux|screen|xargs"
)
"""Programs whose processes have another environment, or other arguments, than the script says."""

_READERS = re.compile(r"awk|cat|cut|grep|head|less|md5sum|sed|sha256sum|sort|tail|tee|vi|vim|wc")
"""Programs that read their input where no file is named."""

_SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
_IS_SCRIPT = re.compile(r"(?:^|/)python[\d.]*$|\.(?:py|sh)$")
_TEXT = re.compile(r"-[a-z]*c")
_COUNT = re.compile(r"(?:--nproc[-_]per[-_]node|--local_worker_num|--worker_num)[= ](\S+)")
_COUNT_OF_TASKS = re.compile(r"\s(?:-np? |-n(?=\d)|--ntasks(?:-per-node)?[= ])(\S+)")
_SETTING = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_EMPTIES = re.compile(r"-|-[0iv]*i[0iv]*|--ignore-environment")
_UNSETS = re.compile(r"(?:-[0iv]*u|--unset=)(\w+)")
_CLEARS = re.compile(r"-l?c[la]*")
_OF_TASKS = ("srun", "mpirun", "mpiexec")
"""Launchers that start a command as several tasks, and hand on the environment to each."""

_LAUNCHERS = ("torchrun", "msrun", *_OF_TASKS, "deepspeed", "accelerate")
SLURM_EXPORT = "SLURM_EXPORT_ENV"
"""What ``#SBATCH --export`` sets, and ``srun`` reads."""

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


def nested_script(fields: Sequence[str]) -> tuple[str, int] | None:
    """Return the text that a shell is given with ``-c``, by whatever it is started, and by how many
    processes it is followed: 0 if only a run would tell."""
    if elsewhere(fields):
        return None
    for at, word in enumerate(fields[:-2]):
        if _name(word) in _SHELLS and _TEXT.fullmatch(fields[at + 1]):
            return fields[at + 2], processes_of(fields[:at])
    return None


def takes_input(fields: Sequence[str]) -> bool:
    """Return whether a command may read what comes after it in the input of its script."""
    name = _name(fields[0])
    return bool(elsewhere(fields) or name in _OF_TASKS or _READERS.fullmatch(name))


@dataclass
class ProgramVariables:
    """The variables that a program has, and those of its shell that are ``taken`` from it, each
    with the words that do that."""

    has: dict[str, ShellVariable]
    line: int
    taken: dict[str, str] = field(default_factory=dict)

    def keep(self, wanted: Callable[[str], bool], words: str) -> None:
        """Take each variable that is not wanted."""
        self.taken |= {name: words for name in self.has if not wanted(name)}
        self.has = {name: each for name, each in self.has.items() if wanted(name)}

    def give(self, word: str) -> None:
        """Take a word for an assignment if it is one."""
        if (setting := _SETTING.fullmatch(word)) is not None:
            self.has = {**self.has, setting[1]: ShellVariable(setting[2], self.line, exported=True)}


def declared(
    fields: list[str], has: dict[str, ShellVariable], line: int
) -> tuple[list[str], ProgramVariables]:
    """Return a command without its ``env`` and what its launcher hands on, and the variables that
    its program has by it."""
    kept, given = list[str](), ProgramVariables(has, line)
    if _name(fields[0]) == "srun":
        fields = _exported(fields, given)
    if fields[0] == "exec" and _CLEARS.fullmatch(" ".join(fields[1:2])):
        given.keep(lambda _: False, " ".join(fields[:2]))
    at = 0
    while at < len(fields):
        word, at = fields[at], at + 1
        if word == "-x" and _name(fields[0]) == "mpirun":
            given.give(" ".join(fields[at : at + 1]))
            at += 1
            continue
        if _name(word) != "env":
            kept.append(word)
            continue
        while at < len(fields) and (
            fields[at].startswith("-") or _SETTING.fullmatch(fields[at]) is not None
        ):
            option, at = fields[at], at + 1
            given.give(option)
            if option in ("-u", "--unset") and at < len(fields):
                option, at = f"-u{fields[at]}", at + 1
            if _EMPTIES.fullmatch(option):
                given.keep(lambda _: False, f"env {option}")
            elif (unset := _UNSETS.fullmatch(option)) is not None:
                given.keep(unset[1].__ne__, f"env -u {unset[1]}")
    return kept, given


def _exported(fields: list[str], given: ProgramVariables) -> list[str]:
    """Return a command of ``srun`` without ``--export``, and let it hand on everything, unless that
    option or ``SLURM_EXPORT_ENV`` says otherwise."""
    said, rest = given.has.get(SLURM_EXPORT, ShellVariable("ALL")).value, list[str]()
    words = iter(fields)
    for word in words:
        if word == "--export" or word.startswith("--export="):
            said = word.partition("=")[2] or next(words, "")
        else:
            rest.append(word)
    names = said.split(",")
    if "ALL" not in names:
        given.keep(names.__contains__, f"--export={said}")
    for each in names:
        given.give(each)
    return rest


def processes_of(fields: Sequence[str]) -> int:
    """Return how many processes the launchers in a command make of it; 0 if a run would tell."""
    names = [_name(each) for each in fields]
    text = " ".join(fields)
    before = next((at for at, each in enumerate(fields) if _IS_SCRIPT.search(each)), len(fields))
    tasks = " ".join(fields[:before]) if {*names} & {*_OF_TASKS} else ""
    found = [*_COUNT.findall(text), *_COUNT_OF_TASKS.findall(tasks)[:1]]
    counts = [int(each) if each.isdecimal() else 0 for each in found]
    alone = not {*names} & ({*_LAUNCHERS} - {"torchrun"})
    return max(counts, default=int(alone))


def started(
    line: int, fields: Sequence[str], has: dict[str, ShellVariable], span: Span
) -> StartedProcess:
    """Return the process of a command."""
    names = [name for each in fields if (name := _name(each)) in _LAUNCHERS]
    program = next((each for each in names if each in _GIVES_RANKS), "".join(names[:1]))
    return StartedProcess(line, program, has, span, processes_of(fields))


def _name(word: str) -> str:
    return word.rpartition("/")[2]
