"""A launch script, followed and never run: which processes it starts, each with its variables.

A variable counts for whatever command is started while it is exported, or that it stands before.
What depends on a question that only a run would answer is followed in each of its branches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from fnmatch import fnmatchcase
from functools import partial
from itertools import count
from posixpath import normpath
from typing import Any

from pytest_ascendcache.release.environment import NAMES
from pytest_ascendcache.release.shell_grammar import (
    Parser,
    Pipeline,
    ShellCommand,
    ShellError,
    ShellStep,
    simple_commands,
)
from pytest_ascendcache.release.shell_input import ShellInput, given_input, read_values, xargs_runs
from pytest_ascendcache.release.shell_starts import (
    SLURM_EXPORT,
    Span,
    StartedProcess,
    declared,
    elsewhere,
    handles,
    looks_like_a_start,
    nested_script,
    started,
    takes_input,
)
from pytest_ascendcache.release.shell_words import (
    MOST,
    Names,
    ShellVariable,
    arithmetic,
    decided,
    fields_of,
    is_unknown,
    printed,
    text_of,
)

_SETS = re.compile(
    r"\b([A-Za-z_]\w*)\s*(?:\[[^\]]*\])?\s*(?:[-+*/%]?=(?!=)|\+\+|--)|(?:\+\+|--)(\w+)"
)
_OF_STACK = re.compile(rf"\b(?:{'|'.join(NAMES)})=")
_PREFIX = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=.*", re.DOTALL)
_DECLARES = ("export", "declare", "typeset", "local", "readonly")
_READS = ("read", "mapfile", "readarray", "getopts")
_MOST_COMMANDS = 20_000
_MOST_TURNS = 1024
"""Turns of a loop whose condition is followed, after which it is taken to be open."""

_FOREVER = (("true",), (":",))


class Status(Enum):
    """How a command ends, as far as that is known: a program runs, and a test may be open."""

    YES, NO, OPEN, RAN = "yes", "no", "open", "ran"


class _LeaveError(Exception):
    """A command leaves a loop, a function or the script."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how


@dataclass
class Record:
    """What following a script found. ``settings`` are the last values of variables that programs
    could have, ``values`` all of them, and ``lost`` says what took such a variable away, in which
    line: words, or nothing for the end of a subshell. ``unfollowed`` are lines, each with the
    reason why it is not decided."""

    processes: list[StartedProcess] = field(default_factory=list)
    guesses: list[StartedProcess] = field(default_factory=list)
    settings: dict[str, ShellVariable] = field(default_factory=dict)
    values: dict[str, dict[str, None]] = field(default_factory=dict)
    lost: dict[str, tuple[int, str]] = field(default_factory=dict)
    unfollowed: dict[int, str] = field(default_factory=dict)
    sourced: dict[int, str] = field(default_factory=dict)
    functions: dict[str, ShellCommand] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    turns: int = 0
    cut: int = 0
    ticks: int = 0
    commands: int = 0

    def spend(self, line: int) -> None:
        """Count a command. Raises ``_LeaveError`` after more than a script of a job has."""
        self.commands += 1
        if self.commands > _MOST_COMMANDS:
            self.unfollowed[line] = "the commands before it are too many to be followed"
            raise _LeaveError("exit")

    def set(self, variables: Mapping[str, ShellVariable]) -> None:
        """Note variables that programs could have."""
        self.settings.update(variables)
        for name, each in variables.items():
            self.values.setdefault(name, {})[each.value] = None
            self.lost.pop(name, None)

    def turn(self, line: int) -> bool:
        """Count a turn of a loop; returns whether it is followed."""
        self.turns += 1
        if self.turns > MOST:
            self.cut = self.cut or line
        return self.turns <= MOST

    def tick(self) -> int:
        self.ticks += 1
        return self.ticks

    def leave_open(self, commands: Iterable[ShellCommand], why: str) -> None:
        """Note which commands are not followed, of those that set something of the stack."""
        for command in (each for one in commands for each in one.simple()):
            if _OF_STACK.search(" ".join(command.words)):
                self.unfollowed[command.line] = why


@dataclass
class Shell:
    """Follows commands. ``lane`` is where its processes run one after the other, ``path`` which
    branches of open questions they are in, ``tasks`` how many processes follow it: 0 if only a run
    would tell."""

    record: Record
    names: Names = field(default_factory=Names)
    lane: Span = field(default_factory=Span)
    input: ShellInput = field(default_factory=ShellInput)
    tasks: int = 1
    path: tuple[tuple[int, int], ...] = ()
    calls: tuple[str, ...] = ()
    repeats: bool = False
    hidden: list[dict[str, ShellVariable | None]] = field(default_factory=list)

    def child(self, **changes: object) -> Shell:
        """Return a shell that begins with what this one has."""
        own: dict[str, Any] = {"names": self.names.copy(), "hidden": [*self.hidden], **changes}
        return replace(self, **own)

    def beside(self) -> Shell:
        """Return a shell that runs at the same time as others of the same lane."""
        return self.child(lane=Span(self.lane, self.record.tick()))

    def script(self, text: str, line: int = 1) -> None:
        """Follow a text, as far as its grammar is followed."""
        try:
            for step in Parser(text, line).steps():
                self.step(step)
        except ShellError as error:
            self.record.unfollowed[error.line] = "the grammar is not followed from here on"
        except RecursionError:
            self.record.unfollowed[line] = "it is nested too deeply"

    def follow(self, steps: Sequence[ShellStep]) -> Status:
        status = Status.YES
        for step in steps:
            status = self.step(step)
        return status

    def step(self, step: ShellStep) -> Status:
        if not step.background:
            return self.joined(step.pipelines)
        with suppress(_LeaveError), _ending(self.beside(), self) as shell:
            replace(shell, input=ShellInput()).joined(step.pipelines)
        return Status.YES

    def joined(self, pipelines: Sequence[Pipeline]) -> Status:
        """Follow what ``&&`` and ``||`` join; a program is taken to succeed."""
        status, before = Status.YES, ""
        for pipeline in pipelines:
            stops = {"&&": (Status.NO,), "||": (Status.YES, Status.RAN)}.get(pipeline.joint, ())
            if status in stops:
                if status is Status.RAN:
                    why = f"whether it counts depends on {before}"
                    self.record.leave_open(pipeline.commands, why)
                continue
            if pipeline.joint and status is Status.OPEN:
                runs = (lambda shell, one=pipeline: shell.pipeline(one), lambda _: Status.OPEN)
                self.branches(before, runs)
            else:
                status = self.pipeline(pipeline)
            before = _text(pipeline.commands)
        return status

    def pipeline(self, pipeline: Pipeline) -> Status:
        status, text = Status.YES, self.input
        for command in pipeline.commands:
            shell = self if len(pipeline.commands) == 1 else self.child(input=text)
            text = shell.output(command)
            if shell is self:
                status = shell.command(command)
                continue
            with suppress(_LeaveError), _ending(shell, self):
                status = shell.command(command)
        if not pipeline.inverted:
            return status
        return {Status.YES: Status.NO, Status.NO: Status.YES}.get(status, Status.OPEN)

    def output(self, command: ShellCommand) -> ShellInput:
        """Return what the next command of a pipeline reads from one."""
        if command.kind != "simple":
            return ShellInput()
        fields = [each for word in command.words for each in fields_of(word, self.names)]
        if fields == ["cat"]:
            read = self.input if command.source is None else given_input(command.source, self.names)
            return replace(read)
        return ShellInput(printed(fields))

    def command(self, command: ShellCommand) -> Status:
        if command.source is None:
            return self.bare(command)
        before, self.input = self.input, given_input(command.source, self.names)
        try:
            return self.bare(command)
        finally:
            self.input = before

    def bare(self, command: ShellCommand) -> Status:
        match command.kind:
            case "simple":
                return self.simple(command)
            case "test":
                return _status(decided([text_of(each, self.names) for each in command.words]))
            case "arithmetic":
                return _status(_truth(command.words[0], self.names))
            case "group":
                return self.follow(command.bodies[0])
            case "subshell":
                with suppress(_LeaveError), _ending(self.child(), self) as shell:
                    return shell.follow(command.bodies[0])
                return Status.RAN
            case "if":
                return self.choose(command.bodies)
            case "case":
                return self.case(command)
            case "function":
                self.record.functions[command.words[0]] = command
                return Status.YES
        return Loop(self, command).follow()

    def choose(self, bodies: tuple[tuple[ShellStep, ...], ...]) -> Status:
        """Follow ``if``: its bodies are conditions, each before what it leads to."""
        if len(bodies) < 2:
            return self.follow(bodies[0]) if bodies else Status.YES
        status = self.follow(bodies[0])
        if status is Status.YES:
            return self.follow(bodies[1])
        if status is Status.NO:
            return self.choose(bodies[2:])
        why = _text(bodies[0][-1].pipelines[-1].commands)
        runs = (lambda shell: shell.follow(bodies[1]), lambda shell: shell.choose(bodies[2:]))
        return self.branches(why, runs)

    def case(self, command: ShellCommand) -> Status:
        value = text_of(command.words[0], self.names)
        patterns = [[text_of(one, self.names) for one in each.split("|")] for each in command.words]
        if not is_unknown(value):
            for each, body in zip(patterns[1:], command.bodies, strict=True):
                if any(fnmatchcase(value, one) for one in each):
                    return self.follow(body)
            return Status.YES
        runs = [partial(Shell.follow, steps=body) for body in command.bodies]
        if not any("*" in each for each in patterns[1:]):
            runs.append(partial(Shell.follow, steps=()))
        return self.branches(command.words[0], runs)

    def branches(self, why: str, runs: Sequence[Callable[[Shell], Status]]) -> Status:
        """Follow each way that an open question may lead to, and go on with what they share."""
        number, ends = self.record.tick(), list[Shell]()
        for at, run in enumerate(runs):
            shell = self.child(path=(*self.path, (number, at)), input=replace(self.input))
            try:
                run(shell)
            except _LeaveError as leave:
                left = leave
            else:
                ends.append(shell)
        if not ends:
            raise left
        texts = {end.input.text for end in ends}
        self.input.text = texts.pop() if len(texts) == 1 else None
        if len(ends) == 1:
            self.names, self.path = ends[0].names, ends[0].path
            return Status.OPEN
        self.names.arrays = {
            name: array
            for name, array in ends[0].names.arrays.items()
            if all(end.names.arrays.get(name) == array for end in ends)
        }
        for name in dict.fromkeys(name for end in ends for name in end.names.variables):
            found = [end.names.variables.get(name) for end in ends]
            last = next(filter(None, reversed(found)))
            known = {each and each.value for each in found}
            exported = {each is not None and each.exported for each in found}
            if len(known) > 1 or len(exported) > 1:
                reason = "" if name in why else f"whether it counts depends on {why}"
                kept = f"${{{name}:-{last.value}}}" if name in why else f"${name}"
                last = replace(last, value=kept, exported=True in exported, why=reason)
            self.names.variables[name] = last
        return Status.OPEN

    def simple(self, command: ShellCommand) -> Status:
        words, line = [*command.words], command.line
        self.record.spend(line)
        before: list[str] = []
        while words and _PREFIX.fullmatch(words[0]):
            before.append(words.pop(0))
        fields = [each for word in words for each in fields_of(word, self.names)]
        if not fields:
            for word in before:
                self.note(self.names.take(word, line))
            return Status.YES
        own = self.names.copy()
        names = [own.take(word, line, exported=True) for word in before]
        given = {each: own.variables[each] for each in names if each in own.variables}
        name = fields[0].lstrip("\\")
        if name in self.record.functions:
            return self.call(name, fields[1:], given)
        if fields == ["exec"]:  # its redirections count for what follows
            return Status.YES
        builtin = _BUILTINS.get(name)
        if builtin is not None:
            return builtin(_Use(self, line, words, fields, given))
        _start(self, line, fields, given)
        if name == "exec":
            raise _LeaveError("exit")
        return Status.RAN

    def note(self, name: str) -> None:
        if name in self.names.variables and (name in NAMES or self.names.variables[name].exported):
            self.record.set({name: self.names.variables[name]})

    def call(self, name: str, arguments: list[str], given: dict[str, ShellVariable]) -> Status:
        """Follow a function of the script; one that calls itself only once."""
        body = self.record.functions[name]
        self.record.called.add(name)
        if name in self.calls or not self.record.turn(body.line):
            return Status.RAN
        before = {each: self.names.variables.get(each) for each in given}
        self.names.variables.update(given)
        outer, self.names.arguments = self.names.arguments, tuple(arguments)
        self.calls, status = (*self.calls, name), Status.RAN
        self.hidden.append(before)
        try:
            status = self.follow(body.bodies[0])
        except _LeaveError as leave:
            if leave.how != "return":
                raise
        finally:
            self.calls, self.names.arguments = self.calls[:-1], outer
            for each, was in self.hidden.pop().items():
                self.names.variables.pop(each, None)
                if was is not None:
                    self.names.variables[each] = was
        return Status.RAN if status is Status.YES else status


@contextmanager
def _ending(shell: Shell, parent: Shell) -> Iterator[Shell]:
    """Follow commands in a shell, and note which settings end with it."""
    try:
        yield shell
    finally:
        for name, each in shell.names.variables.items():
            if name in shell.record.settings and parent.names.variables.get(name) is not each:
                shell.record.lost.setdefault(name, (each.line, ""))


def _start(shell: Shell, line: int, fields: list[str], given: dict[str, ShellVariable]) -> None:
    """Record a program that is started, with what is exported and what stands before it."""
    record, names = shell.record, shell.names
    exported = {key: one for key, one in names.variables.items() if one.exported}
    record.set(given)
    if fields[0].rpartition("/")[2] == "xargs":
        _start_each(shell, line, fields, given)
        return
    fields, own = declared(fields, {**exported, **given}, line)
    has = own.has
    record.set({name: each for name, each in has.items() if each is not exported.get(name)})
    if not (fields and handles(fields)):
        record.lost |= {name: (line, words) for name, words in own.taken.items()}
    if (nested := nested_script(fields)) is not None:
        inner = Names({**has, "PWD": ShellVariable(names.get("PWD") or "$PWD")})
        tasks = shell.tasks * nested[1]
        shell.child(names=inner, hidden=[], tasks=tasks).script(nested[0], line)
        return
    if fields and takes_input(fields):
        shell.input.text = None
    if not fields or handles(fields):
        return
    if program := elsewhere(fields):
        text = " ".join(fields)
        if looks_like_a_start(fields) and (_OF_STACK.search(text) or {*NAMES} & {*has}):
            why = f"which of its settings {program} hands on is not known"
            record.unfollowed.setdefault(line, why)
        return
    lost = next((each for each in fields[1:] if _OF_STACK.search(each)), "")
    if lost and looks_like_a_start(fields):
        record.unfollowed.setdefault(line, f"what {fields[0]} makes of {lost} is not known")
    now = record.tick()
    process = started(line, fields, has, Span(shell.lane, now, now))
    process.count *= shell.tasks
    process.directory = names.get("PWD") or "$PWD"
    process.path, process.repeats = shell.path, shell.repeats and shell.lane.parent is not None
    certain = looks_like_a_start(fields) or any(name in NAMES for name in given)
    found = record.processes if certain else record.guesses
    if len(found) < MOST:
        found.append(process)


def _start_each(
    shell: Shell, line: int, fields: list[str], given: dict[str, ShellVariable]
) -> None:
    """Follow what ``xargs`` starts: it hands on its environment, and its input says what it is."""
    runs = xargs_runs(fields, shell.input.all())
    if isinstance(runs, str):
        shell.record.unfollowed.setdefault(line, f"what xargs makes of {runs} is not known")
        return
    if not runs.certain:
        shell = shell.child(path=(*shell.path, (shell.record.tick(), 0)), repeats=True)
    for commands in runs.rounds():
        lane = Span(shell.lane, shell.record.tick())
        for command in commands:
            inner = shell.child(input=ShellInput(""))
            if runs.at_once != 1:
                inner = replace(inner, lane=lane).beside()
            if command and shell.record.turn(line):
                _start(inner, line, [*command], given)
        lane.end = shell.record.tick()


def _forget(shell: Shell, body: Sequence[ShellStep], words: Sequence[str]) -> None:
    """Take what a loop sets, in a turn of which nothing is known, for unknown."""
    for name in {*_set_in(shell, body, set()), *_names_set(" ".join(words))}:
        was = shell.names.variables.get(name, ShellVariable(""))
        shell.names.arrays.pop(name, None)
        shell.names.variables[name] = replace(was, value=f"${name}")


def _names_set(text: str) -> Iterator[str]:
    return (one or other for one, other in _SETS.findall(text))


def _set_in(shell: Shell, body: Sequence[ShellStep], seen: set[str]) -> Iterator[str]:
    for command in simple_commands(tuple(body)):
        yield from _names_set(" ".join(command.words))
        first = command.words[0] if command.words else ""
        if first in _READS:
            yield from (word for word in command.words[1:] if word.isidentifier())
        if first in shell.record.functions and first not in seen:
            seen.add(first)
            yield from _set_in(shell, shell.record.functions[first].bodies[0], seen)


def follow(text: str) -> Record:
    """Follow a script."""
    shell = Shell(Record())
    for said in re.findall(r"(?m)^#SBATCH\s(?:.*\s)?--export[= ](\S+)", text):
        shell.names.give(SLURM_EXPORT, said, exported=True)
    with suppress(_LeaveError):
        shell.script(text)
    for name, function in shell.record.functions.items():
        if name not in shell.record.called:
            shell.record.leave_open([function], f"nothing calls {name}")
    return shell.record


@dataclass
class Loop:
    """One loop of a script, and the shell that comes to it."""

    shell: Shell
    command: ShellCommand

    def follow(self) -> Status:
        for _ in self._turns():
            try:
                self.shell.follow(self.command.bodies[-1])
            except _LeaveError as leave:
                if leave.how not in ("break", "continue"):
                    raise
                if leave.how == "break":
                    break
        return Status.RAN

    def _turns(self) -> Iterator[None]:
        """Come to each turn that is known to come."""
        if self.command.kind != "for":
            return self._while(self._answer)
        if not self.command.words[0].startswith("(("):
            return self._values()
        first, condition, after = (*self.command.words[0][2:-2].split(";"), "", "")[:3]
        arithmetic(first, self.shell.names)
        return self._while(lambda: _truth(condition, self.shell.names), after)

    def _answer(self) -> bool | None:
        condition = self.command.bodies[0]
        if next(simple_commands(condition)).words in _FOREVER:
            return None
        status = self.shell.follow(condition)
        if status in (Status.OPEN, Status.RAN):
            return None
        return (status is Status.YES) is (self.command.kind == "while")

    def _values(self) -> Iterator[None]:
        name, *words = self.command.words
        values = [each for word in words for each in fields_of(word, self.shell.names)]
        if any(is_unknown(each) or {*each} & {*"*?["} for each in values):
            self.shell.names.give(name, f"${name}", self.command.line)
            self._once()
            return
        for value in values if self._matters() else ():
            if not self.shell.record.turn(self.command.line):
                return
            self.shell.names.give(name, value, self.command.line)
            yield

    def _while(self, condition: Callable[[], bool | None], after: str = "") -> Iterator[None]:
        for turn in count():
            answer = None if turn >= _MOST_TURNS else condition()
            if answer is None:
                self._once()
            if not answer or not self.shell.record.turn(self.command.line):
                return
            yield
            if after:
                arithmetic(after, self.shell.names)

    def _once(self) -> None:
        """Follow one of the turns of a loop of which nobody knows how many there are."""
        shell, body = self.shell, self.command.bodies[-1]
        steps = (*self.command.bodies[0], *body)
        _forget(shell, steps, self.command.words)
        path, left = (*shell.path, (shell.record.tick(), 0)), replace(shell.input)
        with suppress(_LeaveError):
            shell.child(path=path, repeats=True, input=left).follow(body)
        shell.input.text = left.text if left.text == shell.input.text else None
        _forget(shell, steps, self.command.words)

    def _matters(self) -> bool:
        """Return whether a turn sets, starts or calls anything."""
        return any(
            step.background
            or _SETS.search(" ".join(command.words)) is not None
            or looks_like_a_start(command.words)
            or {*command.words} & {*self.shell.record.functions, *_READS, *_DECLARES, "let"}
            for step in self.command.bodies[-1]
            for command in simple_commands((step,))
        )


def _truth(expression: str, names: Names) -> bool | None:
    number = arithmetic(expression, names)
    return None if number is None else bool(number)


def _status(answer: bool | None) -> Status:
    return Status.OPEN if answer is None else Status.YES if answer else Status.NO


def _text(commands: Sequence[ShellCommand]) -> str:
    return " | ".join(" ".join(each.words) or each.kind for each in commands)


@dataclass(frozen=True)
class _Use:
    """A use of a builtin command: its words, and the fields that they stand for."""

    shell: Shell
    line: int
    words: list[str]
    fields: list[str]
    given: dict[str, ShellVariable]


def _declare(at: _Use) -> Status:
    options = [each for each in at.words[1:] if each.startswith(("-", "+"))]
    on, off = ("".join(each for each in options if each[0] == sign) for sign in "-+")
    exports = at.fields[0] == "export"
    withdrawn = "n" in on if exports else "x" in off
    exported = (exports or "x" in on) and not withdrawn
    is_local = at.shell.calls and not exports and "g" not in on
    for word in at.words[1:]:
        if word in options:
            continue
        match = _PREFIX.fullmatch(word) or _PREFIX.fullmatch(text_of(word, at.shell.names))
        name = match[0].partition("=")[0].rstrip("+") if match else text_of(word, at.shell.names)
        if is_local and at.shell.hidden:
            at.shell.hidden[-1].setdefault(name, at.shell.names.variables.get(name))
        if match:
            name = at.shell.names.take(word, at.line, exported=exported)
        was = at.shell.names.variables.get(name)
        if was is not None:
            now = replace(was, exported=not withdrawn and (exported or was.exported))
            at.shell.names.variables[name] = now
        at.shell.note(name)
        if was is not None and was.exported and withdrawn:
            at.shell.record.lost[name] = (at.line, f"{at.fields[0]} {options[0]}")
    return Status.YES


def _leave(at: _Use) -> Status:
    raise _LeaveError(at.fields[0])


def _test(at: _Use) -> Status:
    return _status(decided(at.fields[1:-1] if at.fields[0] == "[" else at.fields[1:]))


def _unset(at: _Use) -> Status:
    for name in at.fields[1:]:
        at.shell.names.arrays.pop(name, None)
        was = at.shell.names.variables.get(name)
        at.shell.names.variables[name] = ShellVariable("", at.line)
        if was is not None and was.exported:
            at.shell.record.lost[name] = (at.line, "unset")
    return Status.YES


def _read(at: _Use) -> Status:
    names, words = at.shell.names, at.fields[1:]
    options = "".join(each[1:] for each in words if each.startswith("-"))
    wanted = [each for each in words if each.isidentifier()]
    separators = at.given.get("IFS", names.variables.get("IFS", ShellVariable(" \t"))).value
    line, values = at.shell.input.line(), None
    if line is not None and at.fields[0] == "read" and len(wanted) + bool(options) == len(words):
        values = read_values(line, options, len(wanted), separators)
    if values is None:
        at.shell.input.text = None
    for name, value in zip(wanted, values or (f"${each}" for each in wanted), strict=True):
        names.give(name, value, at.line)
    return Status.OPEN if values is None else _status((line or "").endswith("\n"))


def _let(at: _Use) -> Status:
    for each in at.fields[1:]:
        arithmetic(each, at.shell.names)
    return Status.YES


def _set(at: _Use) -> Status:
    if "--" in at.fields:
        at.shell.names.arguments = tuple(at.fields[at.fields.index("--") + 1 :])
    elif at.fields[1:] in (["-a"], ["-o", "allexport"]):
        at.shell.names.exports_all = True
    elif at.fields[1:] in (["+a"], ["+o", "allexport"]):
        at.shell.names.exports_all = False
    return Status.YES


def _shift(at: _Use) -> Status:
    if at.shell.names.arguments is not None:
        count = int(at.fields[1]) if at.fields[1:] and at.fields[1].isdecimal() else 1
        at.shell.names.arguments = at.shell.names.arguments[count:]
    return Status.YES


def _wait(at: _Use) -> Status:
    at.shell.lane.wait(at.shell.record.tick())
    return Status.RAN


def _cd(at: _Use) -> Status:
    target = next((each for each in at.fields[1:] if each[:1] != "-" or each == "-"), "$HOME")
    here = at.shell.names.get("PWD") or "$PWD"
    known = target != "-" and at.fields[0] != "popd"
    at.shell.names.give("PWD", normpath(f"{here}/{target}") if known else "$(pwd)", at.line)
    if known and target.startswith(("/", "$", "~")):
        at.shell.names.give("PWD", normpath(target), at.line)
    return Status.RAN


def _source(at: _Use) -> Status:
    at.shell.record.sourced[at.line] = " ".join(at.fields[1:2])
    return Status.RAN


def _eval(at: _Use) -> Status:
    at.shell.script(" ".join(at.fields[1:]), at.line)
    return Status.RAN


def _constant(status: Status) -> Callable[[_Use], Status]:
    return lambda _: status


_BUILTINS: dict[str, Callable[[_Use], Status]] = {
    **dict.fromkeys(_DECLARES, _declare),
    **dict.fromkeys(_READS, _read),
    **dict.fromkeys(("exit", "return", "break", "continue"), _leave),
    **dict.fromkeys(("[", "test"), _test),
    **dict.fromkeys(("source", "."), _source),
    **dict.fromkeys(("true", ":"), _constant(Status.YES)),
    **dict.fromkeys(("cd", "pushd", "popd"), _cd),
    **dict.fromkeys(("ulimit", "umask", "shopt"), _constant(Status.RAN)),
    **dict.fromkeys(("trap", "kill", "jobs", "disown", "alias", "hash"), _constant(Status.RAN)),
    "false": _constant(Status.NO),
    "unset": _unset,
    "let": _let,
    "set": _set,
    "shift": _shift,
    "wait": _wait,
    "eval": _eval,
}
