"""Finished conversions on disk, for the workers of one run and for a run that resumes another.

A place, named by a digest of all that they depend on, holds the conversions that follow one another
on one cache. One counts once its record exists, which is renamed into place last.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest_ascendcache
from pytest_ascendcache.files import copy_tree, read_input, write_output
from pytest_ascendcache.observation.evidence import Step
from pytest_ascendcache.observation.model_file import ModelKernel, ModelParts
from pytest_ascendcache.release.inputs import file_sha256
from pytest_ascendcache.toolchains import ConvertRequest, ConvertResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMAT = 1
"""Version of the record. It is part of the key, so records of an older plugin are not read."""

_RECORD = "conversion-*.json"


@dataclass(frozen=True)
class Conversion:
    """One conversion. ``parts`` are those of its model, ``None`` if it failed; ``run`` is the run
    of pytest that made it; ``source`` names the conversion in messages."""

    result: ConvertResult
    parts: ModelParts | None
    run: str
    source: str = ""

    @property
    def model(self) -> Path:
        """The ``.om`` file of a successful conversion."""
        assert self.result.model is not None
        return self.result.model

    @property
    def step(self) -> Step:
        result, parts = self.result, self.parts
        return Step(
            command=result.command,
            ending=result.ending,
            outcomes=() if parts is None else (f"{self.source}: {len(parts.kernels)} kernels",),
            changes={},
            output="" if result.succeeded else result.output,
        )


class ConversionShelf:
    """Places for conversions below ``directory``, which ``outlives`` this run or not.

    ``run`` names this run of pytest, the same for all of its workers. ``known`` are the conversions
    that this process has seen, failed ones included; ``outputs`` are by model and digest of the
    inputs; ``announced`` are the releases whose cost the user was told.
    """

    def __init__(self, directory: Path, run: str, outlives: bool) -> None:
        self.directory, self.run, self.outlives = directory, run, outlives
        self.announced: set[Path] = set()
        self.known: dict[Path, dict[str, list[Conversion]]] = {}
        self.outputs: dict[tuple[Path, str], dict[str, NDArray[Any]]] = {}

    @contextmanager
    def place(self, name: str, key: Mapping[str, Any]) -> Iterator[ConversionPlace]:
        """Lock the place of a key; other processes wait. The lock ends with the process."""
        text = json.dumps({"format": FORMAT, **key}, sort_keys=True)
        place = self.directory / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"
        self.directory.mkdir(parents=True, exist_ok=True)
        with place.with_name(f"{place.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield ConversionPlace(place, self)

    def earlier(self) -> tuple[int, float]:
        """The number of conversions that earlier runs finished, and the seconds they took."""
        count, seconds = 0, 0.0
        for path in self.directory.glob(f"*/{_RECORD}"):
            try:
                record = json.loads(read_input(path))
                if record["run"] != self.run:
                    count += len(record["conversions"])
                    seconds += max(each["seconds"] for each in record["conversions"])
            except (OSError, ValueError, LookupError, TypeError):
                continue
        return count, seconds


@dataclass(frozen=True)
class ConversionPlace:
    """The directory in which conversions with one key are made and kept."""

    directory: Path
    shelf: ConversionShelf

    @property
    def cache(self) -> Path:
        return self.directory / "cache"

    @property
    def _left(self) -> Path:
        """A copy of the cache as the first conversion left it, without marks."""
        return self.directory / "left"

    def found(self, name: str, requests: Sequence[ConvertRequest]) -> list[Conversion] | None:
        """The conversions recorded under a name, or ``None`` if any of them is incomplete."""
        if (known := self._known.get(name)) is not None:
            return known
        try:
            record = json.loads(read_input(self._record(name)))
            pairs = zip(record["conversions"], requests, strict=True)
            made = [_recorded(each, request, record["run"]) for each, request in pairs]
        except (OSError, ValueError, LookupError, TypeError):
            return None
        self._known[name] = made
        return made

    def begin(self) -> None:
        """Clear the place for the first conversion."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()
        self._known.clear()

    def resume(self, name: str) -> bool:
        """Restore the cache as the first conversion left it, to make an interrupted one again.
        Returns whether that can be done."""
        if not self._left.is_dir():
            return False
        for directory in (self.directory / name, self.cache):
            shutil.rmtree(directory, ignore_errors=True)
        copy_tree(self._left, self.cache)
        return True

    def keep(self, name: str, results: Sequence[Conversion], others_follow: bool) -> None:
        """Record finished conversions if all of them succeeded, and copy the cache if others
        follow, which a later run may have to make."""
        self._known[name] = list(results)
        if any(each.parts is None for each in results):
            return
        if others_follow and self.shelf.outlives and not self._left.exists():
            unfinished = self.directory / "left.unfinished"
            copy_tree(self.cache, unfinished)
            unfinished.rename(self._left)
        record = {"run": self.shelf.run, "conversions": [_record(each) for each in results]}
        write_output(self._record(name), json.dumps(record))

    @property
    def _known(self) -> dict[str, list[Conversion]]:
        return self.shelf.known.setdefault(self.directory, {})

    def _record(self, name: str) -> Path:
        return self.directory / _RECORD.replace("*", name)


def _record(made: Conversion) -> dict[str, Any]:
    result, parts = made.result, made.parts
    assert parts is not None
    return {
        "argv": result.argv,
        "environment": dict(result.environment),
        "deadline": result.deadline,
        "output": result.output,
        "seconds": result.seconds,
        "model": made.model.name,
        "sha256": file_sha256(made.model),
        "kernels": [asdict(each) for each in parts.kernels],
        "rest": parts.rest,
        "size": parts.size,
    }


def _recorded(record: Mapping[str, Any], request: ConvertRequest, run: str) -> Conversion:
    """Read a conversion from its record. Raises LookupError, TypeError, OSError if the record is
    damaged or the model is gone. Raises ValueError if the model has changed."""
    model = request.output.parent / record["model"]
    if file_sha256(model) != record["sha256"]:
        raise ValueError(f"{model} has changed")
    result = ConvertResult(
        request=request,
        argv=tuple(record["argv"]),
        environment=record["environment"],
        returncode=0,
        deadline=record["deadline"],
        output=record["output"],
        model=model,
        seconds=record["seconds"],
    )
    kernels = tuple(ModelKernel(**each) for each in record["kernels"])
    return Conversion(result, ModelParts(kernels, record["rest"], record["size"]), run)


@cache
def code_stamp() -> str:
    """Digest of sizes and times of this package's files, which decide how a model is read."""
    root = Path(pytest_ascendcache.__file__).parent
    files = sorted(root.rglob("*.py"))
    stamps = [(str(each.relative_to(root)), each.stat()) for each in files]
    text = json.dumps([(name, info.st_size, info.st_mtime_ns) for name, info in stamps])
    return hashlib.sha256(text.encode()).hexdigest()
