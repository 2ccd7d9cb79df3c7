"""Compiles one source to one object, and keeps objects by everything they are compiled from.

The key of an object is its preprocessed text, which contains every include, system headers too. So
no stale object is ever used, releases share equal objects, and a mutant costs one compile. The
files that were read are recorded too: while none of them changes, nothing is preprocessed again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pytest_ascendcache.toolchains.cann_cache.plan import BuildPlan, SourceError, python_headers

_FILE_NAME = re.compile(r"(?:\\.|[^\s\\])+")


class Notes:
    """Records which files a source was preprocessed from. A note is valid while no file it names
    has changed, and no file was added to or removed from the include directories.

    These are the notes of one build of the checkout ``root``, in ``directory``. Each file is read
    once per build.
    """

    def __init__(self, directory: Path, root: Path, plan: BuildPlan) -> None:
        self._directory, self._root = directory, root
        includes = {root / each for group in plan.groups for each in group.includes}
        names = {str(path) for include in includes for path in include.rglob("*")}
        self._surroundings = _digest(str(root), plan.digest, *sorted(names))
        self._digests: dict[str, str] = {}

    def find(self, command: Iterable[str]) -> str:
        """The name of the object this command produced; empty if a file has changed since."""
        try:
            noted = json.loads(self._path(command).read_text(encoding="utf-8"))
            same = all(self._digest(name) == was for name, was in noted["read"].items())
            return str(noted["object"]) if same else ""
        except (OSError, ValueError, KeyError):
            return ""  # there is no note yet, or a file is gone

    def write(self, command: Iterable[str], name: str, read: Iterable[str], since: int) -> None:
        """Record that a command read these files and produced the object ``name``. Nothing is
        recorded if one of them changed at ``since`` (nanoseconds of the epoch) or later: the
        command may have read the earlier contents."""
        try:
            if any((self._root / each).stat().st_ctime_ns >= since for each in read):
                return
            noted = {"object": name, "read": {each: self._digest(each) for each in read}}
        except OSError:
            return  # a file was removed meanwhile
        path = self._path(command)
        temporary = path.with_name(f"{path.stem}.{secrets.token_hex(4)}.tmp")
        temporary.write_text(json.dumps(noted), encoding="utf-8")
        temporary.replace(path)

    def _path(self, command: Iterable[str]) -> Path:
        return self._directory / f"{_digest(self._surroundings, *command)}.json"

    def _digest(self, name: str) -> str:
        if name not in self._digests:
            self._digests[name] = hashlib.sha256((self._root / name).read_bytes()).hexdigest()
        return self._digests[name]


@dataclass(frozen=True)
class SourceUnit:
    """One source to compile. ``shown`` is its name in messages."""

    path: Path
    includes: tuple[Path, ...]
    shown: str


@dataclass(frozen=True)
class ObjectCompiler:
    """A C++ compiler, and the directory of its objects."""

    program: str
    plan: BuildPlan
    objects: Path

    @classmethod
    def find(cls, plan: BuildPlan, objects: Path) -> ObjectCompiler:
        """The compiler that ``CXX`` names, or else g++ or clang++. Raises ``SourceError``, which
        lists everything that is missing."""
        named = os.environ.get("CXX")
        program = next(
            filter(None, map(shutil.which, [named] if named else ["g++", "clang++"])), ""
        )
        if not program:
            missing = f"CXX names '{named}', which is not a program" if named else "no C++ compiler"
            raise SourceError(f"{missing}; install g++ 9 or newer (Debian: apt install g++).")
        compiler = cls(program, plan, objects)
        lacking = compiler._lacking_headers()
        if lacking:
            packages = " ".join(compiler.plan.needs[each] for each in lacking)
            raise SourceError(
                f"headers are missing: {', '.join(lacking)}; install them "
                f"(Debian: apt install {packages})."
            )
        return compiler

    @cached_property
    def identity(self) -> str:
        """The first line the compiler prints about its version."""
        return self._run(["--version"], Path("/")).stdout.splitlines()[0]

    def object(self, unit: SourceUnit, root: Path, notes: Notes) -> Path:
        """The object of a source. It is compiled only if no object of the same text exists; if
        ``notes`` show that no file changed, it is not even preprocessed. Raises ``SourceError`` for
        a compile error, with file and line."""
        includes = [f"-I{_relative(each, root)}" for each in unit.includes]
        command = [*self.plan.flags, *includes, "-E", _relative(unit.path, root)]
        noted = notes.find([self.identity, *command])
        if noted and (self.objects / noted).exists():
            return self.objects / noted
        with tempfile.NamedTemporaryFile(suffix=".tmp", dir=self.objects) as reads:
            since = os.fstat(reads.fileno()).st_ctime_ns
            ended = self._run([*command, "-MD", "-MF", reads.name], root)
            self._check(unit, ended)
            read = _prerequisites(Path(reads.name).read_text(errors="surrogateescape"))
        text = ended.stdout.replace(str(self.plan.native), "native")
        kept = self.objects / f"{_digest(self.identity, *self.plan.flags, text)}.o"
        if not kept.exists():
            self._compile(unit, text, kept, root)
        notes.write([self.identity, *command], kept.name, read, since)
        return kept

    def link(self, objects: Sequence[Path], output: Path, *more: str) -> None:
        """Link objects. Raises ``SourceError``, which names the first missing symbol."""
        arguments = [*map(str, objects), "-o", str(output), *more, *self.plan.link]
        ended = self._run(arguments, self.plan.native)
        if ended.returncode == 0:
            return
        missing = re.search(
            r"undefined (?:reference to|symbol:?) [`']?(.+?)'?$", ended.stderr, re.M
        )
        what = f"the symbol {missing[1]} is defined nowhere" if missing else _last(ended.stderr)
        raise SourceError(f"the checkout does not fit: {what} (linking {output.name}).")

    def _compile(self, unit: SourceUnit, text: str, kept: Path, root: Path) -> None:
        temporary = kept.with_name(f"{kept.stem}.{secrets.token_hex(4)}.tmp")
        flags = [each for each in self.plan.flags if each not in ("-include", "cstdint")]
        try:
            arguments = [*flags, "-x", "c++-cpp-output", "-c", "-", "-o", str(temporary)]
            self._check(unit, self._run(arguments, root, text))
            temporary.replace(kept)
        finally:
            temporary.unlink(missing_ok=True)

    def _check(self, unit: SourceUnit, ended: subprocess.CompletedProcess[str]) -> None:
        if ended.returncode == 0:
            return
        errors = (line for line in ended.stderr.splitlines() if " error: " in line)
        first = next(errors, _last(ended.stderr))
        raise SourceError(f"the checkout does not fit: {unit.shown} does not compile: {first}.")

    def _lacking_headers(self) -> list[str]:
        questions = "".join(
            f"#if !__has_include(<{each}>)\nlacking {each}\n#endif\n" for each in self.plan.needs
        )
        arguments = ["-std=c++17", f"-I{python_headers()}", "-E", "-P", "-x", "c++", "-"]
        ended = self._run(arguments, Path("/"), questions)
        return [each for each in self.plan.needs if f"lacking {each}" in ended.stdout]

    def _run(
        self, arguments: Sequence[str], cwd: Path, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *arguments],
            cwd=cwd,
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )


def _relative(path: Path, root: Path) -> str:
    """A path without the checkout's location, so that equal files have equal text."""
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it printed nothing"


def _digest(*parts: str) -> str:
    """SHA-256 of texts."""
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()


def _prerequisites(rule: str) -> list[str]:
    """The files in a rule for ``make``, as ``-MD`` writes it."""
    names = _FILE_NAME.findall(rule.replace("\\\n", " ").partition(":")[2])
    return [re.sub(r"\\(.)", r"\1", each).replace("$$", "$") for each in names]
