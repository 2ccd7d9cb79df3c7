"""Judging an installed ``atc``, with a stand-in for the toolkit."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from standins import install_atc

from pytest_ascendcache import conformance
from pytest_ascendcache.contract import Capability, CompileOptions, DebugConfig
from pytest_ascendcache.faults import find_strace
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.processes.sleeping import wait_until
from pytest_ascendcache.qualification.scenes.caches import cann_entry
from pytest_ascendcache.toolchains import CompileRequest, ToolchainError, atc_toolchain

SOCS = ("Ascend910B1", "Ascend310P3", "Ascend910B3")
X = TensorDesc.of("float32", 4)
ABS, EXP = OperatorSpec("Abs", (X,), (X,), name="abs"), OperatorSpec("Exp", (X,), (X,), name="exp")
STORES = "--ascend-rule=cache-mode/enable-stores"
DEFAULT = "--ascend-rule=cache-mode/default-is-disable"
SUITE = ("--pyargs", "pytest_ascendcache.conformance.cache_mode.test_cache_mode")
"""One file of the suite, because collecting all takes longer."""

_ROBUST = "pytest_ascendcache/conformance/robustness/test_robust.py"
_MOUNTED = f"{_ROBUST}::test_a_read_only_file_system_gives_hits"


@pytest.fixture
def atc(tmp_path: Path, standin_atc: Path) -> Path:
    return install_atc(tmp_path / "toolkit", *SOCS, server=standin_atc)


def request_in(root: Path, *operators: OperatorSpec, **changes: object) -> CompileRequest:
    """Return a request for a plain compile in directories of its own below ``root``."""
    where = {"output": root / "out", "work": root / "work", "home": root / "home"}
    fields = {"options": CompileOptions(), "cache_dir": None, **where, **changes}
    return CompileRequest(operators=operators or (ABS,), **fields)


def judge(
    pytester: pytest.Pytester, atc: Path, *options: str, files: str = "cache_mode"
) -> pytest.RunResult:
    """Run some files of the suite on the stand-in, in a separate process."""
    suite = Path(conformance.__file__).parent
    paths = [next(suite.glob(f"*/test_{name}.py")) for name in files.split()]
    modules = [f"{conformance.PACKAGE}.{path.parent.name}.{path.stem}" for path in paths]
    return pytester.runpytest_subprocess(
        "--ascend-cache", f"--ascend-atc={atc}", *options, "--pyargs", *modules
    )


# --- the adapter ----------------------------------------------------------------------------


def test_what_is_found_around_a_program(atc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_OPP_PATH", raising=False)
    toolchain = atc_toolchain(str(atc), 60)
    assert toolchain.version == "8.0.STANDIN"
    assert toolchain.installed_socs == set(SOCS)
    assert toolchain.details == {
        "program": str(atc),
        "opp": "7.7.0",
        "opp_path": str(atc.parents[1] / "opp"),
        "soc": "Ascend910B1",
    }
    offered = {Capability.VERSION_STAMP, Capability.IMPL_MODE_TABLES, Capability.DEBUG_CONFIG}
    assert offered <= toolchain.capabilities
    assert Capability.SINGLE_OP_DEBUG not in toolchain.capabilities


def test_chips_whose_operators_are_not_installed(atc: Path) -> None:
    descriptions = atc.parents[1] / "x86_64-linux/data/platform_config"
    for soc in SOCS:
        family = soc[:-1]
        (descriptions / f"{soc}.ini").write_text(f"Short_SoC_version={family}\n")
    opp = atc.parents[1] / "elsewhere"
    (opp / "built-in/op_impl/ai_core/tbe/config/ascend310p").mkdir(parents=True)
    os.environ["ASCEND_OPP_PATH"], before = str(opp), os.environ.get("ASCEND_OPP_PATH")
    try:
        assert atc_toolchain(str(atc), 60, "Ascend310P3").installed_socs == {"Ascend310P3"}
        refusal = (
            r"no operators for the chip Ascend910B1 \(--ascend-soc.*\); .*'?Ascend310P3'?[.?]$"
        )
        with pytest.raises(ToolchainError, match=refusal):
            atc_toolchain(str(atc), 60)
    finally:
        del os.environ["ASCEND_OPP_PATH"]
        if before is not None:
            os.environ["ASCEND_OPP_PATH"] = before


def test_an_operator_package_of_another_version(atc: Path, tmp_path: Path) -> None:
    toolchain = atc_toolchain(str(atc), 60)
    change = toolchain.stage(Capability.VERSION_STAMP, ABS, tmp_path / "staged")
    shim = Path(change.environment["ASCEND_OPP_PATH"])
    assert (shim / "built-in").resolve() == (atc.parents[1] / "opp/built-in").resolve()
    assert (shim.parent / "bin/atc").exists()  # a toolkit finds its parts relative to it
    assert (shim / "version.info").read_text() == "Version=7.7.0\nversion_dir=8.0\n"
    change.apply()
    assert (shim / "version.info").read_text() == "Version=7.7.0.1\nversion_dir=8.0\n"
    assert (atc.parents[1] / "opp/version.info").read_text().startswith("Version=7.7.0\n")


def test_operators_of_a_model(atc: Path, tmp_path: Path) -> None:
    toolchain = atc_toolchain(str(atc), 120)
    config = DebugConfig(("ccec_g",))
    options = CompileOptions(debug_config=config)
    request = request_in(tmp_path, ABS, EXP, as_model=True, options=options)
    (result,) = toolchain.compile_together([request])
    assert result.succeeded, result.output
    assert result.delivered == (tmp_path / "out/model_linux_x86_64.om",) * 2
    assert {"--framework=5", f"--model={tmp_path}/out/model.onnx"} <= set(result.argv)
    assert not any(each.startswith("--singleop") for each in result.argv)


def test_an_operator_that_no_model_can_have(atc: Path, tmp_path: Path) -> None:
    odd = OperatorSpec("TopKD", (X,), (X,), name="odd")
    with pytest.raises(ToolchainError, match=r"TopKD.* cannot be a node of a model"):
        atc_toolchain(str(atc), 60).compile_together([request_in(tmp_path, odd, as_model=True)])


def test_logs_are_evidence_of_a_failure(atc: Path, tmp_path: Path) -> None:
    (result,) = atc_toolchain(str(atc), 120).compile_together(
        [request_in(tmp_path, raw_mode="no-such")]
    )
    assert result.returncode == 255
    assert result.log == "[ERROR] TEFUSION(1,atc):its last words \ufffd\n"
    assert "ASCEND_PROCESS_LOG_PATH" not in result.command


def test_a_warning_may_stand_in_the_log(
    atc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN", "warns:500")
    (result,) = atc_toolchain(str(atc), 120).compile_together([request_in(tmp_path, ABS)])
    assert result.succeeded
    assert result.log == "[WARNING] FE(1,atc):500\n"


@pytest.mark.parametrize(
    ("manners", "ending"),
    [
        ("noisy", "ended with exit status 0"),
        ("noisy crash", "was ended by signal 11"),
        ("endless", "did not end within 2 s and was killed"),
        ("hang", "did not end within 2 s and was killed"),
    ],
)
def test_bad_manners(
    atc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manners: str, ending: str
) -> None:
    monkeypatch.setenv("STANDIN", manners)
    (result,) = atc_toolchain(str(atc), 2.0 if "2 s" in ending else 120.0).compile_together(
        [request_in(tmp_path)]
    )
    assert result.ending == ending
    assert len(result.output) <= 16_384


# --- the suite on it ------------------------------------------------------------------------


def test_rules_a_plain_adapter_could_not_judge(pytester: pytest.Pytester, atc: Path) -> None:
    """Checks of debug configurations need models, those of upgrades another operator package."""
    result = judge(
        pytester,
        atc,
        "-k",
        "name-enable-valid or which_reading or (debug_kernel_is_not and list) or voids",
        "-n2",
        files="debug interruption",
    )
    outcomes = result.parseoutcomes()
    # The rule on upgrades also interrupts upgrades, which requires recorded file operations.
    watched = find_strace() is not None
    assert outcomes.pop("passed") >= (5 if watched else 3)
    assert outcomes.keys() <= ({"deselected"} if watched else {"deselected", "skipped"})
    result.stdout.re_match_lines(
        [r"ascendcache: about \d+ runs of atc \(an estimate\), [\d.e+]+ s each .* with 2 workers"]
    )


@pytest.mark.parametrize(
    ("defect", "check"),
    [
        ("list-disables-everything", "test_a_list_names_exactly_what_it_says and prefix and name"),
        ("listed-operators-stored", "test_a_listed_operator_always_compiles and type-enable"),
    ],
)
def test_checks_by_way_of_models_can_fail(
    pytester: pytest.Pytester, atc: Path, monkeypatch: pytest.MonkeyPatch, defect: str, check: str
) -> None:
    monkeypatch.setenv("STANDIN_DEFECT", defect)
    result = judge(pytester, atc, "-k", check, files="debug")
    assert result.parseoutcomes()["failed"] >= 1
    assert "errors" not in result.parseoutcomes()


@pytest.mark.parametrize(
    ("chips", "files"),
    [
        pytest.param(1, "lives", id="lives"),
        *(pytest.param(n, "", id=f"chips-{n}", marks=pytest.mark.nightly) for n in (1, 2)),
    ],
)
def test_every_check_is_decided_of_an_atc_that_keeps_all_promises(
    pytester: pytest.Pytester, standin_atc: Path, chips: int, files: str
) -> None:
    """The suite compiles models if single operators are not enough, for all installed chips."""
    atc = install_atc(pytester.path / "toolkit", *SOCS[:chips], server=standin_atc)
    options = ("--ascend-strict", "--ascend-report=report.json")
    if files:
        judge(pytester, atc, *options, files=files)
    else:
        arguments = ("--ascend-select=whole", f"--ascend-atc={atc}", "-n", "2", *options)
        pytester.runpytest_subprocess(*arguments, "--pyargs", conformance.PACKAGE)
    checks = json.loads((pytester.path / "report.json").read_text())["checks"]
    verdicts = {each["check"]: each["verdict"] for each in checks}
    assert list(verdicts.values()).count("pass") > 20
    # The server that runs the stand-in does not see mounts that a run makes for itself.
    verdicts.pop(_MOUNTED, None)
    assert {
        name: each for name, each in verdicts.items() if each not in ("pass", "not applicable")
    } == {}


def test_a_node_whose_twin_is_served_from_its_entry_is_no_fault(
    pytester: pytest.Pytester, atc: Path
) -> None:
    """Within one model, nothing shows which of two kernels belongs to which node."""
    check = f"{conformance.PACKAGE}.cache_mode.test_texts::test_a_list_in_which_everything_is_odd"
    arguments = ("--ascend-cache", f"--ascend-atc={atc}", "--pyargs", check)
    pytester.runpytest_subprocess(*arguments).assert_outcomes(passed=1)


def test_the_reference_compiles_a_listed_node_beside_an_equal_one_that_it_serves(
    pytester: pytest.Pytester, atc: Path
) -> None:
    module = f"{conformance.PACKAGE}.cache_mode.test_debug"
    check = f"{module}::test_a_listed_node_compiles_beside_a_twin_that_is_served"
    arguments = ("--ascend-cache", f"--ascend-atc={atc}", "--pyargs", check)
    pytester.runpytest_subprocess(*arguments).assert_outcomes(passed=2)


def test_another_chip(pytester: pytest.Pytester, tmp_path: Path, standin_atc: Path) -> None:
    atc = install_atc(tmp_path / "toolkit", "Ascend310P3", "Ascend910B3", server=standin_atc)
    refused = judge(pytester, atc, STORES)
    refused.stderr.fnmatch_lines(
        [
            "*no operators for the chip Ascend910B1 (--ascend-soc, or soc in a release); "
            "did you mean 'Ascend910B3'[?]"
        ]
    )
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    result = judge(
        pytester,
        atc,
        "--ascend-soc=Ascend310P3",
        "--ascend-report=r.json",
        "-k",
        "another_soc",
        files="cache_mode_key",
    )
    result.assert_outcomes(passed=1, skipped=1)  # one of the two other chips is not installed
    report = json.loads((pytester.path / "r.json").read_text())
    assert report["toolchain"]["soc"] == "Ascend310P3"
    assert report["toolchain"]["opp"] == "7.7.0"
    (judged,) = (each for each in report["checks"] if each["verdict"] == "pass")
    assert "--ascend-soc=Ascend310P3" in judged["repeat"]
    assert "kernel_cache/Ascend310P3/" in str(judged["evidence"]["steps"])


def test_a_chip_that_is_installed_and_fails(
    pytester: pytest.Pytester, atc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN", "crash@Ascend310P3")
    result = judge(pytester, atc, "-k", "another_soc and Ascend310P3", files="cache_mode_key")
    result.stdout.fnmatch_lines(["why *was ended by signal 11*", "1 check: 0 pass*1 undecided"])


@pytest.mark.parametrize("soc", ["Ascend 910", "../x"])
def test_what_is_no_chip(pytester: pytest.Pytester, atc: Path, soc: str) -> None:
    result = judge(pytester, atc, f"--ascend-soc={soc}")
    result.stderr.fnmatch_lines([f"ERROR: --ascend-soc must be the name of a chip*, not {soc!r}."])


# --- resuming -------------------------------------------------------------------------------


def verdicts(path: Path) -> list[str]:
    """Return the names of the checks in a journal, in order."""
    lines = path.read_text().splitlines()[1:]
    return [json.loads(line)["record"]["check"].rpartition("::")[2] for line in lines]


def test_a_run_that_was_killed_goes_on(
    pytester: pytest.Pytester, atc: Path, tmp_path: Path
) -> None:
    """The eighth start of the toolchain hangs, and the test ends pytest with SIGTERM."""
    count, pids = tmp_path / "count", tmp_path / "pids"
    wrapper = tmp_path / "atc"
    wrapper.write_text(
        f"#!/bin/sh\necho >> {count}\n"
        f"if [ $(wc -l < {count}) = 8 ]; then echo $$ > {pids}; exec sleep 600; fi\n"
        f'exec {atc} "$@"\n'
    )
    wrapper.chmod(0o755)
    journal = pytester.path / "journal.jsonl"
    options = [f"--ascend-atc={wrapper}", f"--ascend-resume={journal}", "--ascend-cache"]
    command = [sys.executable, "-m", "pytest", *options, STORES, DEFAULT, "-q", *SUITE]
    with subprocess.Popen(command, cwd=pytester.path, stdout=subprocess.PIPE) as running:
        hangs = lambda: pids.exists() and bool(pids.read_text().strip())  # noqa: E731
        assert wait_until(lambda: hangs() or running.poll() is not None, 120)
        assert running.poll() is None
        running.send_signal(signal.SIGTERM)
        running.communicate()
    left = Path(f"/proc/{pids.read_text().strip()}/stat")
    assert wait_until(lambda: not left.exists() or left.read_text().split()[2] in "ZX", 120)
    first = verdicts(journal)
    assert first
    with journal.open("a") as file:
        file.write('{"record": {"rule": "cache-mode/ena')  # a power loss cut the line
    result = pytester.runpytest_subprocess(*options, STORES, DEFAULT, *SUITE)
    decided = verdicts(journal)
    assert decided[: len(first)] == first
    assert len(set(decided)) == len(decided) > len(first)
    result.assert_outcomes(passed=len(decided) - len(first))
    result.stdout.fnmatch_lines(
        [
            f"{len(first)} of the verdicts are an earlier run's, from {journal}",
            f"{len(decided)} checks: {len(decided)} pass,*",
        ]
    )
    started = count.read_text()
    again = pytester.runpytest_subprocess(*options, STORES, DEFAULT, "-n2", *SUITE)
    assert again.ret == pytest.ExitCode.OK
    again.stdout.fnmatch_lines([f"{len(decided)} checks: {len(decided)} pass,*"])
    assert count.read_text() == started  # the journal had all verdicts, so nothing was started


def test_a_failure_stays_one(pytester: pytest.Pytester) -> None:
    options = ["--ascend-cache", "--ascend-resume=j", "--ascend-defect=default-is-enable", DEFAULT]
    first = pytester.runpytest_subprocess(*options, *SUITE)
    for _ in range(2):
        result = pytester.runpytest_subprocess(*options, *SUITE)
        assert result.ret == first.ret == pytest.ExitCode.TESTS_FAILED
        failed = first.parseoutcomes()["failed"]
        result.stdout.fnmatch_lines([f"{failed} checks: 0 pass, {failed} fail*"])


def test_directories_are_looked_at_again(pytester: pytest.Pytester, tmp_path: Path) -> None:
    kernel = cann_entry(tmp_path / "kernel_cache" / "Ascend910B1", 1)
    options = [f"--ascend-audit={tmp_path}", "--ascend-resume=j", "--ascend-rule=audit/digests"]
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=1)
    kernel.object.write_bytes(bytes([*kernel.object.read_bytes()[:-1], 0xA5]))
    pytester.runpytest_subprocess(*options).assert_outcomes(failed=1)


def test_what_could_not_be_told_is_tried_again(
    pytester: pytest.Pytester, atc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--ascend-resume=j", "-k", "test_default_stores_nothing"]
    monkeypatch.setenv("STANDIN", "crash")
    judge(pytester, atc, *options).stdout.fnmatch_lines(["1 check: 0 pass, 1 fail*"])
    monkeypatch.delenv("STANDIN")
    judge(pytester, atc, *options).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["--ascend-select=triples"], "is of a run with options [[]*"),
        (["--ascend-strict"], "is of a run with options [[]*"),
        (["--ascend-timeout=77"], None),
    ],
)
def test_options_of_another_run(
    pytester: pytest.Pytester, change: list[str], words: str | None
) -> None:
    options = ["--ascend-cache", "--ascend-resume=j", "-k", "test_default_stores_nothing"]
    pytester.runpytest_subprocess(*options, *SUITE).assert_outcomes(passed=1)
    result = pytester.runpytest_subprocess(*options, *change, *SUITE)
    if words is None:
        result.stdout.fnmatch_lines(["1 of the verdicts are an earlier run's*"])
    else:
        result.stderr.fnmatch_lines([f"ERROR: --ascend-resume: *j {words}name another file."])
        assert result.ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("print('mine')\n", "line 1 is not a verdict"),
        ("no line end", "line 1 is not a verdict"),
        ("[]\n", "line 1 is not a verdict"),
        ('{"format": 1}\n', "is of a run with format 1"),
    ],
)
def test_what_is_no_journal(pytester: pytest.Pytester, content: str, words: str) -> None:
    path = pytester.path / "j"
    path.write_text(content)
    result = pytester.runpytest_subprocess("--ascend-cache", "--ascend-resume=j", STORES, *SUITE)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --ascend-resume: *{words}*"])
    assert path.read_text() == content


def test_a_place_where_nothing_can_be_kept(pytester: pytest.Pytester) -> None:
    for name, words in ((".", "is a directory"), ("no/j", "does not exist")):
        result = pytester.runpytest_subprocess("--ascend-cache", f"--ascend-resume={name}", *SUITE)
        result.stderr.fnmatch_lines([f"ERROR: --ascend-resume=*{words}*"])
    result = pytester.runpytest_subprocess("--ascend-resume=j", *SUITE)
    result.stderr.fnmatch_lines(["ERROR: --ascend-resume=*j: nothing is judged*"])


def test_the_estimate_of_starts_is_near_the_truth(pytester: pytest.Pytester, atc: Path) -> None:
    result = judge(pytester, atc, "--ascend-rule=cache-mode/force-then-enable")
    text = result.stdout.str()
    estimated = int(re.search(r"about (\d+) runs of atc", text)[1])
    needed = int(re.search(r"runs of the compiler: (\d+)", text)[1])
    assert needed / 2 <= estimated <= needed * 2
