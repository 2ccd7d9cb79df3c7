"""The blocks of a page that a reader can paste, and what comes of pasting them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_BLOCK = re.compile(r"^( *)```(console|python)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"# ([\w./-]+\.py)\n")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_PATIENCE = 900


@dataclass(frozen=True)
class Command:
    """A command of a console block, and the lines that the page prints below it."""

    text: str
    printed: tuple[str, ...] = ()

    @property
    def first_line(self) -> str:
        return self.text.splitlines()[0]


@dataclass(frozen=True)
class Code:
    """A block of Python; ``path`` is the file that its first line names, if it names one."""

    text: str
    path: str = ""


@dataclass(frozen=True)
class Pasted:
    """What came of one command."""

    command: Command
    returncode: int
    output: str

    def missing(self) -> list[str]:
        """The printed lines whose like the output lacks, in their order. Numbers may differ."""
        lines = iter([_shape(each) for each in self.output.splitlines()])
        words = {_shape(each) for each in self.output.split()}
        return [
            each
            for each in self.command.printed
            if not (_has_columns(each) and {_shape(part) for part in each.split()} <= words)
            and not _is_among(each, lines)
        ]


@dataclass
class Page:
    """The blocks of a page, in order."""

    blocks: list[Command | Code] = field(default_factory=list)

    @property
    def commands(self) -> list[Command]:
        return [each for each in self.blocks if isinstance(each, Command)]


def read_page(path: Path) -> Page:
    """The blocks of a page in its order."""
    page = Page()
    for indent, kind, text in _BLOCK.findall(path.read_text(encoding="utf-8")):
        plain = re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)
        if kind == "python":
            named = _NAMED.match(plain)
            page.blocks.append(Code(plain, named[1] if named else ""))
        else:
            page.blocks += _commands(plain.splitlines())
    return page


def _commands(lines: Sequence[str]) -> Iterator[Command]:
    command, printed = "", list[str]()
    for line in lines:
        goes_on = command and not printed and (line.startswith("> ") or command.endswith("\\"))
        if line.startswith("$ "):
            if command:
                yield Command(command, tuple(printed))
            command, printed = line[2:], []
        elif goes_on:
            command += f"\n{line.removeprefix('> ')}"
        elif command and line != "$":  # a prompt that nothing follows
            printed.append(line)
    if command:
        yield Command(command, tuple(printed))


def paste(
    blocks: Sequence[Command | Code], directory: Path, environment: Mapping[str, str]
) -> list[Pasted]:
    """Carry out blocks in one shell that starts in ``directory``, as if they were pasted."""
    script, commands = [], []
    for block in blocks:
        if isinstance(block, Code):
            path = directory / (block.path or f"block{len(script)}.py")
            if block.path:
                path.write_text(block.text, encoding="utf-8")
            else:
                compile(block.text, path.name, "exec")
            continue
        commands.append(block)
        script.append(f"{block.text}\nprintf '\\1%d\\1' $?")
    ended = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_PATIENCE,
    )
    parts = ended.stdout.split("\1")
    endings = zip(parts[0::2], parts[1::2], strict=False)
    return [
        Pasted(command, int(code), output)
        for command, (output, code) in zip(commands, endings, strict=True)
    ]


def _has_columns(printed: str) -> bool:
    """Whether a page prints several names in a line, as ls does on a terminal."""
    return "  " in printed.strip()


def _shape(line: str) -> str:
    return " ".join(_NUMBER.sub("0", line).split())


def _is_among(printed: str, lines: Iterator[str]) -> bool:
    """Whether one of the remaining lines has the shape of the printed one; ``...`` is anything."""
    if not printed.strip() or printed.strip() == "...":
        return True
    parts = map(re.escape, _shape(printed).split("..."))
    pattern = re.compile(".*".join(parts))
    return any(pattern.search(each) for each in lines)
