"""Builds one mutant of CANN's cache code at a time in a copy of the checkout, and judges it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bare
from mutation import Mutant
from ordering import BROKEN

from pytest_ascendcache.conformance import PACKAGE, SUITE_NODES, module_of
from pytest_ascendcache.toolchains.cann_cache.build import Builder, Toolkit
from pytest_ascendcache.toolchains.cann_cache.plan import BuildPlan, SourceError

ABOUT = {
    "te_cache_manager": (
        "cache-mode/",
        "aging/",
        "robust/heals",
        "robust/interrupted",
        "security/",
    ),
    "te_cache_space_manager": ("aging/", "cache-mode/force", "robust/upgrade"),
    "te_cache_utils": ("cache-mode/", "aging/"),
    "compile_result_utils": ("robust/heals", "security/", "cache-mode/enable"),
    "te_file_utils": ("cache-mode/force", "security/", "robust/disk", "robust/upgrade"),
    "te_json_assemble": ("cache-mode/key", "cache-mode/transparent", "impl-mode/", "debug/"),
    "op_debug_config_parser": ("debug/", "cache-mode/transparent"),
    "op_impl_mode_config_parser": ("impl-mode/",),
}
"""The rules that each file decides, by the beginning of their ids."""

_KNOWN = ("cann", str(Path(__file__).with_name("known.toml")))
_FINE = ("pass", "known deviation")
_TRIES = 3
"""How often other checks run after a check failed once but not again. On a busy machine, checks
fail occasionally."""


@dataclass(frozen=True)
class Way:
    """How mutants are judged: by which edition, and if ``quick`` only by rules about their file.
    ``more`` are arguments for pytest."""

    edition: str
    quick: bool = False
    more: Sequence[str] = ()


@dataclass(frozen=True)
class Answer:
    """The suite's answer about a mutant: ``noticed`` by ``check``, ``undecided`` if only that
    check could not decide, otherwise ``missed``."""

    word: str
    check: str = ""


def copy_of(source: Path, to: Path, plan: BuildPlan) -> None:
    """Copy the part of a checkout that a build reads."""
    for group in plan.groups:
        for include in group.includes:
            if (source / include).is_dir():
                shutil.copytree(source / include, to / include, dirs_exist_ok=True, symlinks=True)
        for file in group.sources:
            (to / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / file, to / file)


def judge(
    source: Path, way: Way, *arguments: str, environment: dict[str, str] | None = None
) -> list[dict[str, Any]]:
    """Run the suite on a source with the known deviations; returns the checks in their order.

    Raises:
        SourceError: with the end of the output, if no check ran.
    """
    with tempfile.TemporaryDirectory(prefix="ascendcache-judge-") as empty:  # without other tests
        report = Path(empty) / "report.json"
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
                *("--ascend-cache", "--ascend-select=whole"),
                *(f"--ascend-toolchain=cann-cache:{source}", f"--ascend-report={report}"),
                *(f"--ascend-deviations={each}" for each in _KNOWN),
                *(f"--ascend-edition={way.edition}", "--ascend-timeout=30"),
                *(f"--basetemp={empty}/tmp", *arguments, *way.more),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=empty,
            env={**os.environ, **(environment or {})},
            check=False,
        )
        judged = json.loads(report.read_text("utf-8"))["checks"] if report.exists() else []
    if not judged:
        raise SourceError(f"the suite ended with {ended.returncode}:\n{ended.stdout[-2000:]}")
    return [{**each, "check": each["check"].removeprefix(SUITE_NODES)} for each in judged]


def _places(checks: Collection[str]) -> list[str]:
    """Return the arguments of pytest that select checks by their names in the suite."""
    named = (f"{PACKAGE}.{module_of(each)}::{each.partition('::')[2]}" for each in checks)
    return ["--pyargs", *named]


def compiles(toolkit: Toolkit) -> bool:
    """Return whether the toolkit's atc compiles an operator without the cache."""
    with tempfile.TemporaryDirectory(prefix="ascendcache-bare-") as empty:
        return bare.run(toolkit.root, Path(empty), "disable")


class Place:
    """A copy of a checkout, in which one mutant at a time is built and judged."""

    def __init__(self, source: Path, root: Path, way: Way) -> None:
        plan = BuildPlan.load()
        copy_of(source, root, plan)
        self.root = root
        self._way = way
        self._builder = Builder(plan=plan)
        self.original = self._builder.build(root)

    def judge(self, mutant: Mutant, before: Collection[str]) -> Answer | None:
        """Build and judge a mutant. The checks ``before``, which noticed others, run first.

        Returns None if it does not build, or compiles no operator even without the cache, which is
        obvious without a suite.
        """
        with self._changed(mutant):
            try:
                built = self._builder.build(self.root)
            except SourceError as error:
                if "does not compile" in str(error) or "is defined nowhere" in str(error):
                    return None
                raise
            if not compiles(built):
                return None
            return self._asked(ABOUT[Path(mutant.file).stem], before)

    def _asked(self, about: Sequence[str], before: Collection[str]) -> Answer:
        arguments = [f"--about={each}" for each in about]
        arguments += [f"--first={each}" for each in before]
        arguments += ["--only-about"] * self._way.quick
        answer = Answer("missed")
        for _ in range(_TRIES):
            judged = judge(
                *(self.root, self._way, "-p", "ordering", "--pyargs", PACKAGE),
                *arguments,
                environment={"PYTHONPATH": str(Path(__file__).parent)},
            )
            broken = [str(each["check"]) for each in judged if each["verdict"] in BROKEN]
            if any(each["verdict"] == "undecided" for each in judged):
                answer = Answer("undecided", self._first_undecided(judged))
            if not broken:
                return answer
            again = judge(self.root, self._way, *_places(broken[:1]))
            if any(each["verdict"] in BROKEN for each in again):
                return Answer("noticed", broken[0])
            arguments.append(f"--without={broken[0]}")
        return answer

    @staticmethod
    def _first_undecided(judged: Collection[dict[str, Any]]) -> str:
        return next(str(each["check"]) for each in judged if each["verdict"] == "undecided")

    def broken_of(self, checks: Collection[str]) -> set[str]:
        """Return the checks that fail on the original too, and therefore notice nothing."""
        if not checks:
            return set()
        judged = judge(self.root, self._way, *_places(sorted(checks)))
        return set(checks) - {each["check"] for each in judged if each["verdict"] in _FINE}

    @contextmanager
    def _changed(self, mutant: Mutant) -> Iterator[None]:
        path = self.root / mutant.file
        text = path.read_text(encoding="utf-8")
        lines = text.split("\n")
        lines[mutant.line - 1] = mutant.after
        path.write_text("\n".join(lines), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")
