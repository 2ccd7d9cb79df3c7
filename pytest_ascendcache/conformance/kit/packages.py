"""For checks of static kernel packages: operators, and what must hold of an index."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pytest_ascendcache.caches import InstalledKernels, TornIndex
from pytest_ascendcache.conformance.kit.neighbours import operator_of
from pytest_ascendcache.conformance.kit.told import require_none
from pytest_ascendcache.contract.facts import Delivery, Fact, Place
from pytest_ascendcache.contract.simplified_key import KeyTensor, difference, read_key
from pytest_ascendcache.contract.static_kernel import Index, Union, union
from pytest_ascendcache.observation import StaticKernelsUnderTest
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.operators.dtypes import FORMAT_NUMBERS, TYPE_NUMBERS
from pytest_ascendcache.operators.opinfo import OperatorInfo
from pytest_ascendcache.operators.simplified_key import simplified_key

KINDS = ("Abs", "Exp", "Neg", "Relu", "Sigmoid", "Sqrt", "Square", "Tanh")
PLACES = {
    "signs": ' it\'s  "an" opp; $HOME a*[b]? & #c ',
    "letters": "算子-Größe",
}
"""Names of directories that a shell may misread."""


def operator(kind: str, *shape: int, dtype: str = "float32") -> OperatorSpec:
    """An operator with one input, whose output has the same shape."""
    return operator_of(kind, shape or (4, 8), dtype=dtype)


def leaky(slope: float) -> OperatorSpec:
    return operator_of("LeakyRelu", (4, 8), negative_slope=slope)


def agrees(
    kernels: StaticKernelsUnderTest,
    packages: Iterable[Path],
    where: str,
    chip: str = "*",
    opp: Path | None = None,
) -> None:
    """Break the check unless the index is the union of these packages, and all kernels whole."""
    opp = opp or kernels.opp
    try:
        has = InstalledKernels(opp).index(chip)
    except TornIndex as error:
        detail = f"{where}: the index is torn: {error}"
        raise AssertionError(kernels.evidence.found(Delivery.NOTHING, detail)) from None
    facts = differences(has, union(map(kernels.alone, packages)), where)
    require_none(facts, kernels.evidence)
    whole(kernels, {}, where, opp)


def differences(index: Index, wanted: Union, where: str = "") -> list[Fact]:
    """How an index differs from the wanted one, a fact for each kernel."""
    facts = []
    for key in sorted({*index, *wanted}):
        has, may = index[key]["binPath"] if key in index else None, wanted.get(key, [])
        needs = [each["binPath"] for each in may]
        if has not in (needs or [None]):
            observed = Delivery.STALE if has else Delivery.NOTHING
            text = f"{key[1]} is {has or 'not there'}, not {' or '.join(needs) or 'gone'}"
        elif may and index[key] not in may:
            observed, text = Delivery.ANOTHER, f"{key[1]} is described otherwise"
        else:
            continue
        facts.append(Fact.seen(observed, f"{where}: {text}" if where else text))
    return facts


def are_installed(
    kernels: StaticKernelsUnderTest, packages: Iterable[Path], where: str, opp: Path | None = None
) -> None:
    """Break the check unless exactly these packages are installed: what another installed is not to
    be removed, and what outlives its process is run, old as it may be, by those that come later."""
    packages, there = list(packages), InstalledKernels(opp or kernels.opp).packages
    wanted = {each.stem for each in packages}
    gone, more = sorted(wanted - there), sorted(there - wanted)
    facts = [Fact.seen(Place.TOUCHED, f"{where}: {each} is not installed") for each in gone]
    facts += [Fact.seen(Delivery.STALE, f"{where}: {each} stays installed") for each in more]
    require_none(facts, kernels.evidence)
    agrees(kernels, packages, where, opp=opp)


def told_apart(operators: Iterable[OperatorSpec]) -> list[OperatorSpec]:
    """The operators without those that share a key with an earlier one: a key has the values of
    attributes without their names. Source: facts ``static-kernel`` section 2.5."""
    first: dict[tuple[KeyContent, tuple[str, ...]], OperatorSpec] = {}
    for each in operators:
        values = [attribute.value for attribute in each.attributes]
        values += [tensor.const_value for tensor in each.inputs if tensor and tensor.is_const]
        texts = (str(int(value)) if isinstance(value, bool) else repr(value) for value in values)
        first.setdefault((_content(each), (*texts,)), each)
    return [*first.values()]


def misnamed(index: Index, operators: Iterable[OperatorSpec]) -> list[Fact]:
    """Where the keys of an index, each parsed on its own, do not match the operators: those of
    other operators, or too few or too many of one."""
    keys = {key.replace("/d=1,", "/d=0,") for _, key in index}
    read = {key: (reading.type, reading.parameters) for key in keys if (reading := read_key(key))}
    operators = list(operators)
    wanted, found = Counter(map(_content, operators)), Counter(read.values())
    others = [key for key in keys if read[key] not in wanted]
    facts = []
    for content, each in {_content(each): each for each in operators}.items():
        if found[content] != wanted[content]:
            lost = found[content] < wanted[content] and not others
            told = f"{found[content]} keys say {each}, and {wanted[content]} are needed"
            told += _nearest(each, others)
            facts.append(Fact.seen(Delivery.NOTHING if lost else Delivery.ANOTHER, told, each))
    return facts + [
        Fact.seen(Delivery.ANOTHER, f"the key {key} says none of the operators") for key in others
    ]


def _nearest(operator: OperatorSpec, keys: Iterable[str]) -> str:
    """The field in which the most similar key differs from the operator's."""
    own = simplified_key(OperatorInfo.of(operator))
    alike = [difference(own, key) for key in keys if key.startswith(f"{operator.type}/")]
    return f" (the nearest differs in {min(alike, key=len)})" if alike else ""


KeyContent = tuple[str, tuple[tuple[KeyTensor, ...], ...]]
"""What a key says of an operator: its type, and the tensors of each parameter."""


def _content(operator: OperatorSpec) -> KeyContent:
    info = OperatorInfo.of(operator)
    return info.type, tuple(
        tuple(
            KeyTensor(
                TYPE_NUMBERS[each.tensor.dtype.name],
                FORMAT_NUMBERS[each.tensor.format],
                each.tensor.shape,
            )
            for each in (parameter if isinstance(parameter, tuple) else (parameter,))
            if each is not None
        )
        for parameter in (*info.inputs, *info.outputs)
    )


def faults_of(opp: Path, always: Index, only: int | None = None) -> list[str]:
    """The problems of a process that reads the index now: it has to contain ``always``, and every
    kernel in it, or the ``only`` one by number, has to be complete."""
    installed = InstalledKernels(opp)
    try:
        index = installed.index()
    except TornIndex as error:
        return [f"the index is torn: {error}"]
    if lacking := [key for key in always if key not in index]:
        return [f"the index lacks {lacking[0][1]}, which is installed"]
    entries = list(index.items())
    if only is not None and entries:
        entries = [entries[only % len(entries)]]
    for key, entry in entries:
        problems = installed.problems(entry)
        # A kernel may be removed after the index was read, but not while the index names it.
        if problems and _still_names(installed, key, entry["binPath"]):
            return problems
    return []


def whole(
    kernels: StaticKernelsUnderTest, always: Index, where: str, opp: Path | None = None
) -> None:
    """Break the check if :func:`faults_of` finds any."""
    faults = faults_of(opp or kernels.opp, always)
    assert faults == [], kernels.evidence.found(Delivery.NOTHING, f"{where}: {faults[0]}")


def _still_names(installed: InstalledKernels, key: tuple[str, str], path: str) -> bool:
    try:
        return installed.index().get(key, {}).get("binPath") == path
    except TornIndex:
        return True


@dataclass
class Readings:
    """What a reader has found so far, and how often it has read the index."""

    problems: list[str] = field(default_factory=list)
    passes: int = 0


@contextmanager
def reader(opp: Path, always: Index) -> Iterator[Readings]:
    """Read the index, in which ``always`` is, in a thread all the time. Each pass checks one
    kernel, in order not to slow down what it watches."""
    readings = Readings()
    done = threading.Event()

    def read() -> None:
        while not done.is_set() and not readings.problems:
            readings.problems += faults_of(opp, always, readings.passes)
            readings.passes += 1

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        try:
            yield readings
        finally:
            done.set()
        reading.result()  # an error of ours ends the check, and accuses nobody
