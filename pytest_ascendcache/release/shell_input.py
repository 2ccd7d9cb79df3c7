"""What commands of a launch script read, as far as the script itself says it: here-documents and
the output of commands that only count or repeat."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from pytest_ascendcache.release.shell_grammar import Redirected
from pytest_ascendcache.release.shell_words import MOST, Names, is_unknown, output_of, text_of

_PLAIN = re.compile(r"(?:-[rt]|--no-run-if-empty|--verbose)+")
_VALUED = re.compile(r"(-[PnLIi]|--(?:max-procs|max-args|replace)(?:=|$))(.*)", re.DOTALL)
_LETTERS = {"--max-procs": "P", "--max-args": "n", "--replace": "I", "-i": "I"}
_UNKNOWN = "${input}"
"""What stands for words that only a run would tell."""


@dataclass
class ShellInput:
    """What is left to be read; nothing if only a run would tell."""

    text: str | None = None

    def line(self) -> str | None:
        """Take a line, with its end if it has one."""
        if self.text is None:
            return None
        line, end, self.text = self.text.partition("\n")
        return line + end

    def all(self) -> str | None:
        """Take all that is left."""
        text, self.text = self.text, "" if self.text is not None else None
        return text


def given_input(source: Redirected, names: Names) -> ShellInput:
    """Return what a command is given to read."""
    text: str | None = source.text
    if source.how == "<<<":
        text = text_of(source.word, names) + "\n"
    elif source.how == "<" and source.word.startswith("<("):
        text = output_of(source.word[2:-1], names)
    elif source.how == "<":
        return ShellInput()
    elif source.text and not {*source.word} & {*"\"'\\"}:
        odd = {*source.text} & {*'\\"'}
        text = None if odd else text_of(f'"{source.text}"', names)
    else:
        return ShellInput(text)
    return ShellInput(None if text is None or is_unknown(text) else text)


def read_values(line: str, options: str, count: int, separators: str) -> list[str] | None:
    """Return the values that ``read`` gives its names; nothing if that is not followed."""
    line = line.removesuffix("\n")
    if options.strip("r") or ("\\" in line and "r" not in options) or not count:
        return None
    if separators.isspace():
        line = line.strip(separators)
    blanks = rf"[{re.escape(separators)}]" + ("+" if separators.isspace() else "")
    values = re.split(blanks, line, maxsplit=count - 1) if separators and count > 1 else [line]
    return [*values, *[""] * (count - len(values))]


@dataclass(frozen=True)
class XargsRuns:
    """The commands that ``xargs`` starts, how many at a time, and whether there are only those."""

    commands: tuple[tuple[str, ...], ...]
    at_once: int
    certain: bool

    def rounds(self) -> Iterator[tuple[tuple[str, ...], ...]]:
        """Yield the commands that surely run at the same time."""
        size = self.at_once or len(self.commands) or 1
        for at in range(0, len(self.commands), size):
            yield self.commands[at : at + size]


def xargs_runs(fields: Sequence[str], text: str | None) -> XargsRuns | str:
    """Return what ``xargs`` starts for a text; the option that is not followed, if there is one."""
    rest, said = [*fields[1:]], dict[str, str]()
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if _PLAIN.fullmatch(option):
            continue
        match = _VALUED.fullmatch(option)
        if match is None:
            return option
        name, value = match[1].rstrip("="), match[2]
        if not value and name not in ("-i", "--replace"):
            value = rest.pop(0) if rest else ""
        letter = _LETTERS.get(name, name[1:])
        said[letter] = value or "{}"
        if letter != "I" and not value.isdecimal():
            return option
    mark, command = said.get("I", ""), tuple(rest)
    if text is not None and {*text} & {*"\"'\\"}:
        text = None
    if text is None:
        made = [_replaced(command, mark, _UNKNOWN) if mark else (*command, _UNKNOWN)]
    elif mark:
        lines = [line.lstrip() for line in text.splitlines() if line.strip()]
        made = [_replaced(command, mark, line) for line in lines[: MOST + 1]]
    else:
        made = [(*command, *group) for group in _groups(text, said)]
    return XargsRuns(tuple(made), int(said.get("P", "1")), text is not None)


def _replaced(command: Sequence[str], mark: str, value: str) -> tuple[str, ...]:
    return tuple(each.replace(mark, value) for each in command)


def _groups(text: str, said: dict[str, str]) -> list[list[str]]:
    """Return the words that go to each command without ``-I``."""
    if "L" in said:
        parts = [line.split() for line in text.splitlines() if line.strip()]
        size = max(int(said["L"]), 1)
        several = zip_longest(*[iter(parts)] * size, fillvalue=list[str]())
        return [[word for part in each for word in part] for each in several][: MOST + 1]
    words = text.split()[: MOST + 1]
    size = max(int(said.get("n", str(MOST + 1))), 1)
    return [words[at : at + size] for at in range(0, len(words), size)] or [[]]
