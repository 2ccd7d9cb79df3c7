"""The MindSpore toolchains, as far as they can be tested without the wheel.

A stand-in (``tests/mindspore_standin``) implements the part of MindSpore that the generated scripts
use, and can have faults. The graph cache's checks pass on it, and fail with a fault.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_ascendcache.caches import (
    AKG_KERNEL_META,
    GRAPH_CACHE,
    AkgKernel,
    remove_segments,
    segments_of,
    shared_memory,
)
from pytest_ascendcache.caches.graph_cache import CachedGraph
from pytest_ascendcache.caches.shared_memory import key_of
from pytest_ascendcache.contract.deviations import load_deviations
from pytest_ascendcache.observation import SLOPES, Probe, probe_network
from pytest_ascendcache.operators.network import Network
from pytest_ascendcache.toolchains import Script, ToolchainError, TrainRequest
from pytest_ascendcache.toolchains.mindspore.script import network_script
from pytest_ascendcache.toolchains.mindspore.toolchain import mindspore_toolchain
from pytest_ascendcache.toolchains.mindspore.wheel import find_wheel

STANDIN = Path(__file__).parents[1] / "mindspore_standin"
MEMORY = shared_memory.__file__
GRAPH = "mindspore-graph-cache"
OPERATORS = "mindspore-operator-cache"


def leaky(name: str = "leaky", slope: float = SLOPES[0]) -> Probe:
    return Probe("LeakyRelu", name=name, attributes=(("negative_slope", "float", slope),))


def standin(directory: Path, *, mindspore: str = "2.10.0", decorator: bool = True) -> Path:
    """Return a Python in which the stand-in is installed as a release of MindSpore."""
    packages = {"mindspore": mindspore, **({"decorator": "5.2"} if decorator else {})}
    for name, version in packages.items():
        info = directory / f"site/{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    python = directory / "bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={STANDIN}:{directory}/site STANDIN_MEMORY={MEMORY}\n"
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    shutil.copy(STANDIN / "msrun.py", python.with_name("msrun"))
    return python


# --- scripts --------------------------------------------------------------------------------


def script(network: Network, style: Script = Script()) -> dict[str, str]:  # noqa: B008 - frozen
    return network_script([network], style)


def test_names_data_and_attributes_are_not_in_the_script() -> None:
    plain = script(probe_network(leaky()))
    for other in (leaky("other"), leaky(slope=0.5)):
        assert script(probe_network(other, name="renamed", data=(1.0,))) == plain
    assert script(probe_network(Probe("Tanh"))) != plain


@pytest.mark.parametrize("style", [Script(), Script(module=True), Script(late_import=True)])
def test_every_file_of_a_script_is_python(style: Script) -> None:
    files = script(probe_network(leaky(), "Square", Probe("Exp")), style)
    for name, text in files.items():
        compile(text, name, "exec")
    has_code = "blocks.py" if style.module or style.late_import else "network.py"
    assert "ops.square(" in files[has_code]
    early = files["network.py"].partition("def main")[0]
    assert ("from blocks import" in early) is style.module


def test_an_operator_that_is_not_known_is_named() -> None:
    with pytest.raises(ToolchainError, match=r"Conv2D is not known.*LeakyRelu"):
        script(probe_network("Conv2D"))


def test_the_order_of_networks_is_not_in_the_script(tmp_path: Path) -> None:
    toolchain = mindspore_toolchain(GRAPH, str(standin(tmp_path)), 30)
    first, second = (probe_network(each, name=each.lower()) for each in ("Square", "Exp"))
    texts = []
    for number, (before, last) in enumerate([(first, second), (second, first)]):
        request = TrainRequest(
            last, tmp_path / f"run{number}", tmp_path / "work", script=Script(before=(before,))
        )
        settings = json.loads(toolchain.prepare(request).read_text())
        texts.append((request.directory / "network.py").read_text())
        assert settings["order"] == ([1, 0], [0, 1])[number]
    assert texts[0] == texts[1]


# --- directories ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "graphs"),
    [
        ({}, "/w/rank_0/graph_cache"),
        ({"RANK_ID": "3"}, "/w/rank_0/graph_cache"),
        ({"RANK_ID": "3", "RANK_SIZE": "4"}, "/w/rank_3/graph_cache"),
        ({"MS_COMPILER_CACHE_PATH": "/c"}, "/c/rank_0/graph_cache"),
    ],
)
def test_where_the_caches_are(environment: dict[str, str], graphs: str) -> None:
    assert str(GRAPH_CACHE.place(environment, Path("/w"))) == graphs
    base = environment.get("MS_COMPILER_CACHE_PATH", "/w")
    assert str(AKG_KERNEL_META.place(environment, Path("/w"))) == f"{base}/akg_kernel_meta"


def test_parts_of_a_kernel_are_seen(tmp_path: Path) -> None:
    stem = "Fused_Mul_Maximum_fusion_15072199348562700860"
    (tmp_path / f"{stem}.info").write_text("{}")
    (tmp_path / "dsa_transfrom.log").write_text("")
    (kernel,) = AkgKernel.read_all(tmp_path).values()
    assert kernel.operator_type == "Mul_Maximum_fusion"
    missing = [each for each in kernel.problems() if "missing" in each]
    assert len(missing) == 3
    assert AkgKernel.read_all(tmp_path / "nowhere") == {}


def test_a_kernel_is_replaced_digests_included(tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("kernels are linked with g++, which is not there")

    def build(stem: str, symbol: str) -> AkgKernel:
        source = tmp_path / f"{stem}.c"
        source.write_text(f"int {symbol}(void) {{ return {len(stem)}; }}")
        kernel = AkgKernel(stem, tmp_path)
        for options in (["-c", "-o", kernel.path(".o")], ["-shared", "-o", kernel.path(".so")]):
            subprocess.run(["gcc", "-fPIC", *options, source], check=True)
        kernel.path(".info").write_text("{}")
        kernel.metadata_path.write_text(json.dumps({"kernelName": symbol}))
        return kernel

    impostor, victim = build("Fused_A_1", "impostor_kernel"), build("Fused_Square_2", "square")
    assert "the metadata's sha256 is not that of the .so file" in victim.problems()
    with pytest.raises(ValueError, match="is not a valid kernel"):
        victim.put_object(impostor.object_bytes or b"", "impostor_kernel")
    from pytest_ascendcache.caches.entry import sha256

    fields = {
        "kernelName": "square",
        "sha256": sha256(victim.object_path.read_bytes()),
        "objSha256": sha256(victim.path(".o").read_bytes()),
    }
    victim.metadata_path.write_text(json.dumps(fields))
    victim = AkgKernel(victim.stem, tmp_path)
    assert victim.problems() == []
    victim.put_object(impostor.object_bytes or b"", "impostor_kernel")
    assert AkgKernel(victim.stem, tmp_path).problems() == []
    import ctypes

    assert ctypes.CDLL(str(victim.object_path)).square() == len("Fused_A_1")


def test_a_constant_of_a_network_is_replaced(tmp_path: Path) -> None:
    import struct

    path = tmp_path / "MS_WORKERcompile_cache_0.mindir"
    path.write_bytes(b"head" + struct.pack("<f", SLOPES[1]) + b"tail")
    path.chmod(0o400)
    before = path.stat()
    (graph,) = CachedGraph.read_all(tmp_path).values()
    assert graph.problems() == ["MS_WORKERcompile_dependency.hash is missing"]
    graph.replace_constants(SLOPES, 0.75)
    assert path.read_bytes() == b"head" + struct.pack("<f", 0.75) + b"tail"
    after = path.stat()
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    with pytest.raises(ValueError, match="no constant that could be marked"):
        graph.replace_constants(SLOPES, 0.75)


def test_shared_memory_is_known_by_its_cache_and_removed(tmp_path: Path) -> None:
    import ctypes

    # The results of libstdc++'s std::hash for these texts.
    known = {"": 6142509188972423790, "/srv/cache/of/a/network": 6053710990865161443}
    for text, digest in known.items():
        assert key_of(text.encode()) == digest & 0xFFFFFFFF
    libc = ctypes.CDLL(None, use_errno=True)
    create = 0o1600
    cache = tmp_path / "cache"
    number = libc.shmget(ctypes.c_int32(key_of(bytes(cache))), 4096, create)
    if number < 0:
        pytest.skip("no System V shared memory can be made here")
    try:
        assert [each.number for each in segments_of(cache)] == [number]
        assert segments_of(tmp_path) == []
    finally:
        remove_segments(cache)
    assert segments_of(cache) == []


# --- messages to users ----------------------------------------------------------------------


def judged(pytester: pytest.Pytester, python: Path, *arguments: str, toolchain: str = GRAPH):  # type: ignore[no-untyped-def] # pytest's own type
    return pytester.runpytest_subprocess(
        "--ascend-cache",
        f"--ascend-toolchain={toolchain}:{python}",
        "--ascend-report=report.json",
        *arguments,
        "-p",
        "no:cacheprovider",
    )


def by_night(*values: Any) -> Any:
    """Return a case for nightly runs. Similar cases also run by day."""
    return pytest.param(*values, marks=pytest.mark.nightly)


def verdicts(pytester: pytest.Pytester, field: str = "verdict") -> dict[str, str]:
    report = json.loads((pytester.path / "report.json").read_text())
    return {each["check"].rpartition("::")[2]: each[field] for each in report["checks"]}


def test_without_the_wheel_nothing_applies_and_the_command_is_said(
    pytester: pytest.Pytester, tmp_path: Path
) -> None:
    result = judged(pytester, tmp_path / "nowhere/bin/python", "-rs", "-k", "second_run")
    assert set(verdicts(pytester).values()) == {"not applicable"}
    result.stdout.fnmatch_lines(["*there is no Python at*pip install mindspore==2.10.0*"])


def test_what_is_missing_is_said(pytester: pytest.Pytester, tmp_path: Path) -> None:
    python = standin(tmp_path, decorator=False)
    result = judged(pytester, python, "-rs", "-k", "second_run", toolchain=OPERATORS)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert set(verdicts(pytester).values()) == {"not applicable"}
    message = "has no decorator; ci/verify-mindspore * -m pip install decorator"
    result.stdout.fnmatch_lines([f"*{message}*", "NOTHING WAS JUDGED: *"])


@pytest.mark.parametrize(("release", "is_known"), [("2.9.0", True), ("2.11.0", False)])
def test_any_release_is_judged_and_a_new_one_with_a_notice(
    pytester: pytest.Pytester, tmp_path: Path, release: str, is_known: bool
) -> None:
    result = judged(pytester, standin(tmp_path, mindspore=release), "-k", "second_run")
    assert set(verdicts(pytester).values()) == {"pass"}
    notice = f"MindSpore {release} was not judged before"
    assert (notice in result.stdout.str()) is not is_known


def test_a_release_that_notes_its_script_elsewhere_is_not_forked(tmp_path: Path) -> None:
    def forks(name: str, where: str) -> bool:
        module = tmp_path / name / "site/mindspore" / where
        module.parent.mkdir(parents=True)
        (tmp_path / name / "site/mindspore/__init__.py").touch()
        module.write_text("entry_script_path = None")
        python = standin(tmp_path / name)
        python.write_text(python.read_text().replace(f"{STANDIN}:", ""))
        return find_wheel(str(python), needs_compiler=False).forks

    assert forks("noted", "common/api.py")
    assert not forks("elsewhere", "common/cache.py")


def test_what_a_wrapper_of_python_sets_is_set_in_every_run(
    pytester: pytest.Pytester, tmp_path: Path
) -> None:
    """A Python that disables the cache's own check does more harm than the list of deviations
    allows, so the check fails."""
    python = standin(tmp_path)
    lines = python.read_text().splitlines()
    python.write_text("\n".join([lines[0], "export STANDIN_FAULT=narrow-key", *lines[1:]]))
    name = "test_what_is_changed_is_compiled"
    result = judged(pytester, python, "--ascend-deviations=mindspore-2.10.0", "-k", name)
    assert verdicts(pytester)[f"{name}[shape]"] == "fail"
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_without_a_linker_kernels_cannot_be_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = standin(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    toolchain = mindspore_toolchain(OPERATORS, str(python), 30)
    assert "apt-get install g++" in toolchain.unusable
    assert toolchain.capabilities == frozenset()
    assert mindspore_toolchain(GRAPH, str(python), 30).unusable == ""


def test_checks_of_another_layout_do_not_apply(pytester: pytest.Pytester, tmp_path: Path) -> None:
    module = "pytest_ascendcache.conformance.incremental.test_incremental"
    result = judged(pytester, standin(tmp_path), "--pyargs", module, "-k", "second_run")
    assert set(verdicts(pytester).values()) == {"not applicable"}
    result.stdout.fnmatch_lines(["NOTHING WAS JUDGED: none of * applicable"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_the_list_is_about_these_toolchains_alone() -> None:
    entries = load_deviations("mindspore-2.10.0")
    for name in (GRAPH, OPERATORS):
        assert any(entry.is_about(name) for entry in entries)
    assert not any(entry.is_about("reference") for entry in entries)


# --- the suite on the stand-in --------------------------------------------------------------

SAMPLE = (
    "changed or second or reordered or nothing_set or relative or world or working or another or "
    "mindir or refused or read_only or one_process or digest or trained or jit or odd"
)
"""Words in names of checks that each judge a different property of a cache."""


def test_a_good_cache_passes(pytester: pytest.Pytester, tmp_path: Path) -> None:
    judged(pytester, standin(tmp_path), "-k", f"({SAMPLE}) and not gang")
    by_check = verdicts(pytester)
    assert {name: each for name, each in by_check.items() if each == "pass"} != {}
    unexpected = {
        name: each for name, each in by_check.items() if each not in ("pass", "not applicable")
    }
    # As in MindSpore, the cache has one slot per number, so one network replaces another.
    assert unexpected == {"test_another_network_between_costs_no_compile": "fail"}


@pytest.mark.parametrize(
    ("fault", "change", "verdict"),
    [
        ("narrow-key", "constant", "known deviation"),
        ("narrow-key", "shape", "fail"),
    ],
)
def test_a_new_fault_of_a_listed_check_fails(
    pytester: pytest.Pytester,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    change: str,
    verdict: str,
) -> None:
    """The list has entries for both checks. For a changed shape it lists wrong outputs, but not a
    run of another network's kernel without any output."""
    monkeypatch.setenv("STANDIN_FAULT", fault)
    check = f"test_what_is_changed_is_compiled[{change}]"
    ended = judged(pytester, standin(tmp_path), "--ascend-deviations=mindspore-2.10.0", "-k", check)
    assert verdicts(pytester)[check] == verdict
    assert (ended.ret == 0) == (verdict == "known deviation")


@pytest.mark.parametrize(
    ("fault", "check", "harm"),
    [
        ("narrow-key", "test_what_is_changed_is_compiled[constant]", "wrong-result"),
        by_night("dies-of-damage", "test_a_damaged_file_heals[flipped-mindir]", "unusable"),
        ("trained-for-all", "test_inference_does_not_run_what_was_trained", "wrong-result"),
        by_night(
            "keeps-release", "test_what_another_release_cached_is_compiled_anew", "stale-kernel"
        ),
    ],
)
def test_a_fault_is_found(
    pytester: pytest.Pytester,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    check: str,
    harm: str,
) -> None:
    """A documented limit and a recommendation are no faults, but their consequences still fail."""
    monkeypatch.setenv("STANDIN_FAULT", fault)
    name = check.partition("[")[0]
    other = standin(tmp_path / "other", mindspore="2.9.0")
    judged(
        pytester, standin(tmp_path), f"--override-ini=ascend_mindspore_other={other}", "-k", name
    )
    assert verdicts(pytester)[check] == "fail"
    assert verdicts(pytester, "harm")[check] == harm


@pytest.mark.parametrize(
    ("fault", "check", "verdict"),
    [
        ("any-jit-level", "test_another_jit_level_is_compiled", "warn"),
        by_night("quiet-switch", "test_an_odd_switch_is_taken_or_named[true]", "warn"),
    ],
)
def test_a_fault_without_harm_is_told(
    pytester: pytest.Pytester,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    check: str,
    verdict: str,
) -> None:
    name = check.partition("[")[0]
    other = standin(tmp_path / "other", mindspore="2.9.0")
    arguments = (f"--override-ini=ascend_mindspore_other={other}", "-k", name)
    python = standin(tmp_path)
    judged(pytester, python, *arguments)
    assert set(verdicts(pytester).values()) == {"pass"}
    monkeypatch.setenv("STANDIN_FAULT", fault)
    judged(pytester, python, *arguments)
    assert verdicts(pytester)[check] == verdict


@pytest.mark.parametrize(
    ("fault", "verdict", "harm"),
    [
        by_night("", "pass", None),
        by_night("dies-of-damage", "fail", "unusable"),
        ("trusts-bytes", "fail", "wrong-result"),
    ],
)
def test_flipped_bits_are_told_apart(
    pytester: pytest.Pytester,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    verdict: str,
    harm: str | None,
) -> None:
    monkeypatch.setenv("STANDIN_FAULT", fault)
    module = "pytest_ascendcache.conformance.mindspore.graph_cache.test_bit_flips"
    check = "test_no_flipped_bit_does_harm[1]"
    judged(pytester, standin(tmp_path), "--pyargs", f"{module}::{check}")
    assert verdicts(pytester) == {check: verdict}
    assert verdicts(pytester, "harm") == {check: harm}
