"""What the suite keeps between runs: packages by their operators, and which ini is whose."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest

from pytest_ascendcache.conformance.kit.named_alike import names_like, package_names_like
from pytest_ascendcache.conformance.kit.packages import leaky
from pytest_ascendcache.observation import StaticKernelsUnderTest
from pytest_ascendcache.observation.invariants import broken_invariants
from pytest_ascendcache.qualification.toolchain import reference_toolchain

INI = "kernel_cache/op_cache.ini"


@pytest.fixture
def kernels(tmp_path):
    toolchain = reference_toolchain("fork")
    (tmp_path / "shelf").mkdir()
    yield StaticKernelsUnderTest(toolchain, tmp_path, tmp_path / "shelf")
    toolchain.close()


def test_packages_of_operators_with_other_attributes_are_others(kernels):
    half, quarter = kernels.package(leaky(0.5)), kernels.package(leaky(0.25))
    assert half != quarter
    assert kernels.package(leaky(0.5)) == half
    assert kernels.alone(half).keys() != kernels.alone(quarter).keys()


def _run(before: str, after: str):
    def files(digest: str):
        text = digest if "=" in digest else f"# {digest}"
        if not digest:
            return {}
        file = {"kind": "file", "sha256": digest, "size": len(text)}
        return {INI: SimpleNamespace(**file, text="" if digest.startswith("long") else text)}

    snapshots = ({"cache": SimpleNamespace(files=files(each))} for each in (before, after))
    moments = dict(zip(("before", "after"), snapshots, strict=True))
    return SimpleNamespace(named={}, kind=None, **moments)


@pytest.mark.parametrize(
    ("digests", "touches"),
    [
        (["", "made", "changed", "again"], []),
        (["user's", "changed"], [1]),
        (["user's", ""], [1]),
        (["", "made", "made"], []),
        (["adk_version=8\nmax_op_cache_size=9", "max_op_cache_size=9\nadk_version = 8.1"], []),
        (["adk_version=8\nmax_op_cache_size=9", "adk_version=8\nmax_op_cache_size=500"], [1]),
        (["# mine\nadk_version=8", "adk_version=8.1"], [1]),
        (["adk_version=8", "[op_compiler_cache]\nadk_version=8.1"], []),
        (["max_op_cache_size=9", "max_op_cache_size=9\nremain_cache_size_ratio=50"], [1]),
        (["long", "longer"], [1]),
    ],
    ids=str,
)
def test_an_ini_is_its_users_unless_the_toolchain_made_it(digests, touches):
    made: set[str] = set()
    runs = [_run(*each) for each in pairwise(digests)]
    facts = [[*broken_invariants(run, made)] for run in runs]
    assert [number for number, each in enumerate(facts, 1) if each] == touches


def test_what_a_user_writes_over_a_toolchains_ini_is_the_users():
    made: set[str] = set()
    assert [*broken_invariants(_run("", "made"), made)] == []
    assert [*broken_invariants(_run("edited", "changed"), made)] != []


def test_names_that_are_easily_taken_for_one_another():
    assert {"rank_10", "rank_01", "rank_1.bak", "RANK_1", "rank_"} <= set(names_like("rank_1"))
    assert "rank_1" not in names_like("rank_1")
    assert set(package_names_like("pk_1")) < set(names_like("pk_1"))
