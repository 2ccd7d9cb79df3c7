"""Splitting models: objects are found and measured, whatever bytes surround them."""

from __future__ import annotations

import hashlib
import resource
from pathlib import Path

import pytest

from pytest_ascendcache.caches import embedded_objects
from pytest_ascendcache.observation import model_file
from pytest_ascendcache.observation.model_file import differences, take_apart
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.reference.kernels import KernelOptions, build

TENSOR = TensorDesc.of("float32", 4)


def kernel(kind: str, symbol: str = "") -> bytes:
    spec = OperatorSpec(kind, (TENSOR,), (TENSOR,))
    return build(spec, symbol or f"te_{kind.lower()}", KernelOptions("Ascend910B1")).object


ABS, EXP = kernel("Abs"), kernel("Exp")


def parts(tmp_path: Path, *pieces: bytes):
    path = tmp_path / "model.om"
    path.write_bytes(b"".join(pieces))
    return take_apart(path)


@pytest.mark.parametrize("piece", [1000, 4096, len(ABS) + 7, 4 << 20])
@pytest.mark.parametrize("gap", [0, 1, 3, 997])
def test_kernels_are_found_wherever_pieces_end(tmp_path, monkeypatch, piece, gap) -> None:
    monkeypatch.setattr(model_file, "_PIECE", piece)
    between = [bytes([65 + number]) * gap for number in range(4)]
    data = [between[0], ABS, between[1], EXP, between[2], ABS, between[3]]
    pieces = parts(tmp_path, *data)
    model = b"".join(data)
    assert [each.sha256 for each in pieces.kernels] == [
        hashlib.sha256(each).hexdigest() for each in embedded_objects(model)
    ]
    assert [each.symbol for each in pieces.kernels] == ["te_abs", "te_exp", "te_abs"]
    sizes = [b"%d" % len(each) for each in (ABS, EXP, ABS)]
    rest = [part for pair in zip(between, [*sizes, b""], strict=True) for part in pair]
    assert pieces.rest == hashlib.sha256(b"".join(rest)).hexdigest()
    assert pieces.size == len(model)


@pytest.mark.parametrize(
    "data",
    [b"", b"no kernels", ABS[:64], ABS[:-1], b"\x7fELF", b"\x7fELF\x02\x01" * 50],
)
def test_what_only_begins_like_an_object_is_none(tmp_path, data: bytes) -> None:
    pieces = parts(tmp_path, data)
    assert pieces.kernels == ()
    assert pieces.rest == hashlib.sha256(data).hexdigest()


def test_where_kernels_lie_is_told(tmp_path) -> None:
    assert parts(tmp_path, b"ab", ABS, b"c") != parts(tmp_path, b"a", ABS, b"bc")


def test_a_large_model_takes_no_more_memory_than_a_small_one(tmp_path) -> None:
    path = tmp_path / "large.om"
    with path.open("wb") as file:
        file.write(ABS)
        file.seek(256 << 20)
        file.write(EXP)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pieces = take_apart(path)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert len(pieces.kernels) == 2
    assert grown < 64 << 10  # KiB


def test_differences_are_told_by_name(tmp_path) -> None:
    other = kernel("Exp", "te_abs")
    one, two = parts(tmp_path, ABS, EXP), parts(tmp_path, other, EXP, EXP)
    assert differences(one, one) == []
    reported = {(each.name, bool(each.found), bool(each.wanted)) for each in differences(two, one)}
    assert reported == {("te_abs", True, True), ("te_exp", True, False)}
    reported = {(each.name, bool(each.found), bool(each.wanted)) for each in differences(one, two)}
    assert reported == {("te_abs", True, True), ("te_exp", False, True)}
    assert parts(tmp_path, ABS, other, EXP).by_symbol.keys() == {"te_abs", "te_abs#2", "te_exp"}
