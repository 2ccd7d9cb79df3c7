"""Compiles one source to one object, and keeps objects by everything they are compiled from.

The key of an object is its preprocessed text, which contains every include, system headers too. So
no stale object is ever used, releases share equal objects, and a mutant costs one compile. The
files that were read are recorded too: while none of them changes, nothing is preprocessed again.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pytest_ascendcache.toolchains.cann_cache.dependencies import Notes, digest, prerequisites
from pytest_ascendcache.toolchains.cann_cache.plan import Plan, SourceError, python_headers


@dataclass(frozen=True)
class Unit:
    """One source to compile. ``shown`` is its name in messages."""

    path: Path
    includes: tuple[Path, ...]
    shown: str


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler, and the directory of its objects."""

    program: str
    plan: Plan
    objects: Path

    @classmethod
    def find(cls, plan: Plan, objects: Path) -> Compiler:
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

    def object(self, unit: Unit, root: Path, notes: Notes) -> Path:
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
            read = prerequisites(Path(reads.name).read_text(errors="surrogateescape"))
        text = ended.stdout.replace(str(self.plan.native), "native")
        kept = self.objects / f"{digest(self.identity, *self.plan.flags, text)}.o"
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

    def _compile(self, unit: Unit, text: str, kept: Path, root: Path) -> None:
        temporary = kept.with_name(f"{kept.stem}.{secrets.token_hex(4)}.tmp")
        flags = [each for each in self.plan.flags if each not in ("-include", "cstdint")]
        try:
            arguments = [*flags, "-x", "c++-cpp-output", "-c", "-", "-o", str(temporary)]
            self._check(unit, self._run(arguments, root, text))
            temporary.replace(kept)
        finally:
            temporary.unlink(missing_ok=True)

    def _check(self, unit: Unit, ended: subprocess.CompletedProcess[str]) -> None:
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
