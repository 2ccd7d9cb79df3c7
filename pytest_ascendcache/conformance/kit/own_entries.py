"""The entries of a cache through many runs: which operator owns which, and what is known of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_ascendcache.caches import Entry
from pytest_ascendcache.conformance.kit.judge import Known
from pytest_ascendcache.contract import CompileOptions, ImplModeTables
from pytest_ascendcache.observation import CacheUnderTest
from pytest_ascendcache.operators import OperatorSpec, TensorDesc


@dataclass(frozen=True)
class Key:
    """What identifies an entry: an operator without names or attribute order, chip and mode. Where
    no option names the operator, it may have the mode that the table ``below`` them gives it."""

    operator: OperatorSpec
    soc: str
    mode: str | None
    below: str | None = None

    def __str__(self) -> str:
        return f"{self.operator} on {self.soc}" + (f", {self.mode}" if self.mode else "")


@dataclass
class OwnEntry:
    """The entry of an operator, and the one, with its tensor names, that it was ``stored_for``."""

    stem: str
    known: Known = Known.VALID
    stored_for: OperatorSpec | None = None


@dataclass
class OwnEntries:
    """What is known of the entries of a cache. Methods without options speak of the chip under test
    and the default implementation mode."""

    cache: CacheUnderTest
    tables: ImplModeTables | None
    by_key: dict[Key, OwnEntry] = field(default_factory=dict)
    untold: set[Key] = field(default_factory=set)
    """Keys of which nobody could tell what the last run did: there may be an entry."""

    def known(self, key: Key) -> Known:
        """What is known of an entry before a run is judged."""
        own = self.by_key.get(key)
        known = Known.NONE if own is None else own.known
        if key in self.untold:
            self.untold.remove(key)
            known = Known.OPEN
        return known

    def key(self, operator: OperatorSpec, options: CompileOptions | None = None) -> Key:
        options, modes = options or self.cache.options, []
        if self.has_two(operator):
            assert self.tables is not None
            modes = [self.tables.mode(options, operator, each) for each in (False, True)]
        return Key(_nameless(operator), options.soc, *dict.fromkeys(modes or [None]))

    def has_two(self, operator: OperatorSpec) -> bool:
        """Whether the toolchain is known to have two implementations of an operator."""
        return self.tables is not None and self.tables.has_two(operator)

    def own(self, operator: OperatorSpec) -> OwnEntry | None:
        """What is known of the entry of an operator, None if it has none."""
        return self.by_key.get(self.key(operator))

    def valid(self, operator: OperatorSpec) -> Entry | None:
        """The entry of an operator; None if it has none, or one that another operator has, too, and
        that was damaged as the other one's."""
        own = self.own(operator)
        alike = [each for each in self.by_key.values() if own and each.stem == own.stem]
        if own is None or any(each.known is not Known.VALID for each in alike):
            return None
        return Entry(own.stem, self.cache.layout.soc(self.cache.options.soc))

    def stems(self, operators: Iterable[OperatorSpec]) -> set[str]:
        return {own.stem for own in map(self.own, operators) if own is not None}

    @property
    def damaged(self) -> list[Key]:
        return [key for key, own in self.by_key.items() if own.known is Known.DAMAGED]

    def remove_damaged(self) -> None:
        """Remove every entry that is not valid, so that later runs do not fail over it too."""
        for key in [key for key, own in self.by_key.items() if own.known is not Known.VALID]:
            entry = Entry(self.by_key.pop(key).stem, self.cache.layout.soc(key.soc))
            for path in (entry.object_path, entry.metadata_path):
                remove(path)


def remove(path: Path) -> None:
    """Remove a file, a link or a whole directory, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def named(operators: Iterable[OperatorSpec], prefix: str) -> tuple[OperatorSpec, ...]:
    """The same operators, named by their position."""
    return tuple(each.named(f"{prefix}{number}") for number, each in enumerate(operators))


def renamed(operator: OperatorSpec) -> OperatorSpec:
    """The same operator with other tensor names and its attributes in another order."""
    other = _name_tensors(operator, "in_{}", "out_{}")
    return replace(other, attributes=operator.attributes[::-1])


def _nameless(operator: OperatorSpec) -> OperatorSpec:
    """An operator without the names that no key may contain (``cache-mode/key-ignores-names``)."""
    attributes = tuple(sorted(operator.attributes, key=lambda each: each.name))
    return replace(_name_tensors(operator, "", ""), name="", attributes=attributes)


def _name_tensors(operator: OperatorSpec, input_name: str, output_name: str) -> OperatorSpec:
    """Name the tensors of an operator; ``{}`` in a name stands for the tensor's position."""

    def named_by(tensors: Iterable[TensorDesc], name: str) -> tuple[TensorDesc, ...]:
        return tuple(replace(each, name=name.format(number)) for number, each in enumerate(tensors))

    return replace(
        operator,
        inputs=named_by(operator.inputs, input_name),
        outputs=named_by(operator.outputs, output_name),
    )
