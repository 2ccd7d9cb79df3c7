"""What the checks of static kernels share: operators, and what must hold of an index."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from pytest_ascendcache.caches import InstalledKernels, TornIndex
from pytest_ascendcache.contract.simplified_key import KeyTensor, difference, read_key
from pytest_ascendcache.contract.static_kernel import Index
from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc
from pytest_ascendcache.operators.dtypes import FORMAT_NUMBERS, TYPE_NUMBERS
from pytest_ascendcache.operators.opinfo import OperatorInfo
from pytest_ascendcache.operators.simplified_key import simplified_key

KINDS = ("Abs", "Exp", "Neg", "Relu", "Sigmoid", "Sqrt", "Square", "Tanh")


def operator(kind: str, *shape: int, dtype: str = "float32") -> OperatorSpec:
    """An operator of one input, with the shape of its output."""
    tensor = TensorDesc.of(dtype, *(shape or (4, 8)))
    return OperatorSpec(kind, (tensor,), (tensor,))


def leaky(slope: float) -> OperatorSpec:
    """An operator with an attribute."""
    tensor = TensorDesc.of("float32", 4, 8)
    attribute = Attribute("negative_slope", "float", slope)
    return OperatorSpec("LeakyRelu", (tensor,), (tensor,), (attribute,))


def differences(index: Index, wanted: Index) -> list[str]:
    """How an index differs from what it has to be, a line for each kernel."""
    lines = []
    for key in sorted({*index, *wanted}):
        has, needs = (each[key]["binPath"] if key in each else None for each in (index, wanted))
        if has != needs:
            lines.append(f"{key[1]} is {has or 'not there'}, not {needs or 'gone'}")
        elif index[key] != wanted[key]:
            lines.append(f"{key[1]} is described otherwise")
    return lines


def told_apart(operators: Iterable[OperatorSpec]) -> list[OperatorSpec]:
    """The operators that keys can tell apart, each time the first of those that they cannot.

    A key has the values of the attributes that an operator names, without their names: it is the
    same where ``adj_x1`` alone is true and where ``adj_x2`` alone is. The graph engine names all
    attributes of a prototype. Source: facts ``static-kernel`` section 2.5.
    """
    first: dict[tuple[Said, tuple[str, ...]], OperatorSpec] = {}
    for each in operators:
        values = [attribute.value for attribute in each.attributes]
        values += [tensor.const_value for tensor in each.inputs if tensor and tensor.is_const]
        told = (str(int(value)) if isinstance(value, bool) else repr(value) for value in values)
        first.setdefault((_said(each), (*told,)), each)
    return [*first.values()]


def misnamed(index: Index, operators: Iterable[OperatorSpec]) -> list[str]:
    """Where the keys of an index are not those of the operators, a line for each.

    A key is read for itself, so that an operator whose key speaks of another one is seen too.
    """
    operators = list(operators)
    keys = {key.replace("/d=1,", "/d=0,") for _, key in index}
    read = {key: (reading.type, reading.parameters) for key in keys if (reading := read_key(key))}
    wanted, found = Counter(map(_said, operators)), Counter(read.values())
    others = [key for key in keys if read[key] not in wanted]
    return [
        f"{found[_said(each)]} keys say {each}, and {wanted[_said(each)]} are needed"
        + _nearest(each, others)
        for each in operators
        if found[_said(each)] != wanted[_said(each)]
    ] + [f"the key {key} says none of the operators" for key in others]


def _nearest(operator: OperatorSpec, keys: Iterable[str]) -> str:
    """In which field the key that is most like an operator's differs from it."""
    own = simplified_key(OperatorInfo.of(operator))
    alike = [difference(own, key) for key in keys if key.startswith(f"{operator.type}/")]
    return f" (the nearest differs in {min(alike, key=len)})" if alike else ""


Said = tuple[str, tuple[tuple[KeyTensor, ...], ...]]


def _said(operator: OperatorSpec) -> Said:
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
    """What a process that reads the index now would stumble over.

    ``always`` has to be in it; every kernel it names has to be there and whole, or of them just
    one, the ``only``-th.
    """
    installed = InstalledKernels(opp)
    try:
        index = installed.index()
    except TornIndex as error:
        return [f"the index is torn: {error}"]
    if lacking := [key for key in always if key not in index]:
        return [f"the index lacks {lacking[0][1]}, which is installed"]
    entries = list(index.items())
    for key, entry in entries if only is None else [entries[only % len(entries)]]:
        problems = installed.problems(entry)
        # A kernel may go once the index that named it was read; not while it names it.
        if problems and _still_names(installed, key, entry["binPath"]):
            return problems
    return []


def _still_names(installed: InstalledKernels, key: tuple[str, str], path: str) -> bool:
    try:
        return installed.index().get(key, {}).get("binPath") == path
    except TornIndex:
        return True


@contextmanager
def reader(opp: Path, always: Index) -> Iterator[list[str]]:
    """A thread that reads the index all the time; yields the list of what it found wrong.

    Something has to be installed, ``always``. One kernel a time is looked at, so that the reader
    leaves room for what it watches.
    """
    found: list[str] = []
    done = threading.Event()

    def read() -> None:
        for number in count():
            if done.is_set() or found:
                return
            found.extend(faults_of(opp, always, number))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()
