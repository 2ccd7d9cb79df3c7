"""Bringing a cache into a state: by compiling, or by copying what an equal call produced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_ascendcache.caches import Canary, Entry
from pytest_ascendcache.contract import CacheMode, CompileOptions
from pytest_ascendcache.files import copy_tree
from pytest_ascendcache.observation.compiling import WatchedCompiles
from pytest_ascendcache.observation.evidence import NotDecidable, Step
from pytest_ascendcache.operators import OperatorSpec


@dataclass(frozen=True)
class WarmCache:
    """A copy of a prepared cache, with its known entries and the steps that made it."""

    root: Path
    sandbox: Path
    tokens: Mapping[str, Canary]
    known: Mapping[tuple[OperatorSpec, CompileOptions], str]
    steps: tuple[Step, ...]


class Shared:
    """What checks of one session need not compile again.

    ``fresh`` has kernels on which two compiles without a cache agree, ``first_fresh`` those of the
    first one, ``fresh_runs`` the digests for each run; ``are_steady`` says whether fresh compiles
    have been seen to agree often, or to differ.
    ``warm`` has copies of prepared caches below ``directory``; without one nothing is copied.
    ``socs`` says why a chip cannot be compiled for; empty if it can.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.fresh: dict[Any, bytes] = {}
        self.first_fresh: dict[Any, bytes] = {}
        self.fresh_runs: dict[Any, dict[OperatorSpec, str]] = {}
        self.are_steady: bool | None = None
        self.warm: dict[Any, WarmCache] = {}
        self.socs: dict[str, str] = {}
        self._directory = directory

    def apart(self, directory: Path) -> Shared:
        """A copy for another process, which keeps its own copies in ``directory``."""
        other = Shared(directory)
        other.fresh.update(self.fresh)
        other.warm.update(self.warm)
        other.socs.update(self.socs)
        return other

    def keep_warm(self, key: Any, cache: WatchedCompiles, steps: Iterable[Step]) -> None:
        """Copy a cache that was just prepared, with its markers."""
        if self._directory is None:
            return
        cache.markers.mark(cache.layout)
        root = self._directory / str(len(self.warm))
        copy_tree(cache.root, root)
        copied = tuple(replace(each, ending="copied from an equal compile") for each in steps)
        tokens, known = dict(cache.markers.tokens), dict(cache.known.stems)
        self.warm[key] = WarmCache(root, cache.sandbox, tokens, known, copied)


class Preparing:
    """Prepares one cache, and keeps what it prepared in ``shared``."""

    def __init__(self, cache: WatchedCompiles, shared: Shared) -> None:
        self._cache = cache
        self._shared = shared

    def prepare(self, key: Any, make: Callable[[], None]) -> None:
        """Bring an empty cache into the state that ``make`` produces, or copy it."""
        cache = self._cache
        pristine, key = not cache.root.exists(), (cache.as_model, cache.markers.on, key)
        template = self._shared.warm.get(key) if pristine else None
        if template is None:
            first = len(cache.evidence.steps)
            make()
            if pristine and cache.control.relocates and cache.root.exists():
                self._shared.keep_warm(key, cache, cache.evidence.steps[first:])
            return
        copy_tree(template.root, cache.root)
        cache.markers.tokens.update(template.tokens)
        cache.known.stems.update(template.known)
        # The commands that would have the same effect here.
        old, new = str(template.sandbox), str(cache.sandbox)
        cache.evidence.steps += [
            replace(step, command=step.command.replace(old, new)) for step in template.steps
        ]

    def compile(
        self,
        operators: tuple[OperatorSpec, ...],
        choice: CompileOptions,
        options: Mapping[str, Any],
    ) -> None:
        """Compile under enable. Raises ``NotDecidable`` if an operator has no valid entry then."""
        cache = self._cache
        if cache.as_model and len({each.type for each in operators}) < len(operators):
            # Until entries are known, only its type tells which operator of a model an object
            # belongs to.
            for operator in operators:
                self.compile((operator,), choice, options)
            return
        run = cache.compile(*operators, mode=CacheMode.ENABLE, **options)
        for operator in operators:
            stem = run.stem(operator)
            problems = ["there is none"]
            if stem is not None:
                problems = Entry(stem, cache.layout.soc(choice.soc)).problems()
                cache.known.learn(operator, stem, choice)
            if problems:
                raise NotDecidable(
                    f"warming up left no valid entry for {operator}: {'; '.join(problems)}"
                )
