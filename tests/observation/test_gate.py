"""The gate: every process of a toolchain passes it, and is counted and recorded there."""

from __future__ import annotations

import ast
import json
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import pytest_ascendcache
from pytest_ascendcache.contract import CacheMode, Capability, CompileOptions
from pytest_ascendcache.contract.facts import Aspect, Fact
from pytest_ascendcache.observation import CacheUnderTest, Evidence, PositiveControl
from pytest_ascendcache.observation import gate as gates
from pytest_ascendcache.observation.gate import Gate
from pytest_ascendcache.observation.gated_run import ByHand, ProcessKind, look
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.toolchains import (
    BaseToolchain,
    CompileRequest,
    CompileResult,
    KernelRunError,
    Program,
    StaticRequest,
    ToolchainError,
)

PACKAGE = Path(pytest_ascendcache.__file__).parent
STARTING = {
    *("compile_together", "run_kernel", "start_rank", "start_static"),  # of every toolchain
    *("convert_together", "run_model", "start_gang"),  # of some
}
ABS = OperatorSpec("Abs", (TensorDesc.of("float32", 2),), (TensorDesc.of("float32", 2),))


# --- by structure ---------------------------------------------------------------------------


def _named(path: Path) -> set[str]:
    """The starting methods that a module uses, by attribute or by a string."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    used = {each.attr for each in nodes if isinstance(each, ast.Attribute)}
    used |= {each.value for each in nodes if isinstance(each, ast.Constant) and each.value != ""}
    return used & STARTING


def test_only_the_gate_starts_processes_of_a_toolchain() -> None:
    """Adapters implement the starting methods; the reference is a toolchain itself."""
    others = {
        str(path.relative_to(PACKAGE)): named
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in ("toolchains", "reference")
        and path != Path(gates.__file__)
        and (named := _named(path))
    }
    assert others == {}


def test_the_gate_has_a_way_for_each_starting_method() -> None:
    assert _named(Path(gates.__file__)) == STARTING


def test_every_starting_method_of_the_protocol_is_known() -> None:
    passing_on = {"stage", "impl_mode_tables", "fault_route", "close"}
    methods = {name for name in vars(BaseToolchain) if callable(getattr(BaseToolchain, name))}
    known = {*STARTING, *passing_on}
    assert {each for each in methods if not each.startswith("_")} - known == set()


# --- by counting ----------------------------------------------------------------------------

COUNTING = """
import json, sys
from pathlib import Path

import pytest
from pytest_ascendcache.observation import gate
from pytest_ascendcache.qualification.toolchain import reference_toolchain

LOG = Path(__file__).with_name("log")

def log(who, kind, number=1):
    with LOG.open("a") as file:
        file.write(json.dumps([who, kind, number]) + "\\n")

def counted(toolchain, name, kind):
    start = getattr(toolchain, name)
    def counting(first, *more):
        assert sys._getframe(1).f_globals["__name__"] == "pytest_ascendcache.observation.gate"
        log("toolchain", kind, len(first) if name == "compile_together" else 1)
        return start(first, *more)
    setattr(toolchain, name, counting)

def pytest_ascendcache_toolchain(name, settings):
    if name != "counting":
        return None
    toolchain = reference_toolchain("fork", settings.timeout)
    toolchain.name = "counting"
    counted(toolchain, "compile_together", "compile")
    counted(toolchain, "start_rank", "rank")
    counted(toolchain, "start_static", "static")
    counted(toolchain, "run_kernel", "kernel")
    return toolchain

def pytest_configure():
    gate.broken_invariants = lambda run, _: log("gate", run.kind.value) or ()
"""


def test_the_gate_counts_what_the_toolchain_starts(pytester: pytest.Pytester) -> None:
    """A small run of checks of every kind, with the positive controls and a stress run."""
    pytester.makeconftest(COUNTING)
    result = pytester.runpytest_subprocess(
        *("--ascend-cache", "--ascend-toolchain=counting", "--ascend-stress=4steps"),
        *(
            "--ascend-ranks=2",
            "--override-ini=ascend_stress_operators=2",
            "--ascend-report=report.json",
        ),
        "-k",
        "ranks_at_random or computes_the_operator or same_network or installed_twice "
        "or a_killed_install",
        *("--pyargs", "pytest_ascendcache.conformance"),
    )
    assert result.ret == 0, result.stdout.str()
    starts: dict[str, Counter[str]] = {"gate": Counter(), "toolchain": Counter()}
    for line in (pytester.path / "log").read_text().splitlines():
        who, kind, number = json.loads(line)
        starts[who][kind] += number
    assert starts["gate"] == starts["toolchain"]
    checks = json.loads((pytester.path / "report.json").read_text())["checks"]
    (stress,) = (each for each in checks if "ranks_at_random" in each["check"])
    assert stress["evidence"]["starts"] > 20
    assert stress["evidence"]["compiles"] > 20
    assert starts["gate"].keys() == {"compile", "kernel", "rank", "static"}


# --- records --------------------------------------------------------------------------------


class Compiler(BaseToolchain):
    """Starts no process; ends with ``status``."""

    name, version, capabilities = "compiler", "1", frozenset(Capability)

    def __init__(self, status: int | None = 0) -> None:
        self.status = status

    def compile_together(self, requests):
        results = []
        for request in requests:
            model = request.output.with_suffix(".om")
            model.write_bytes(b"")
            results.append(
                CompileResult(request, ("c",), self.status, 60.0, "", {"HOME": "h"}, (model, None))
            )
        return results

    def run_kernel(self, _model, _operator, inputs):
        if not inputs:
            raise KernelRunError("no inputs")
        return inputs

    def start_static(self, request):
        results = iter([SimpleNamespace(request=request, returncode=-signal.SIGSEGV)])
        return SimpleNamespace(wait=lambda *_: next(results), running="the process")

    def start_gang(self, *_):
        raise AssertionError


def _request(tmp_path: Path, name: str = "out") -> CompileRequest:
    return CompileRequest(
        (ABS, ABS),
        CompileOptions(cache_mode=CacheMode.ENABLE),
        tmp_path / "cache",
        tmp_path / name,
        tmp_path / "work",
        tmp_path / "home",
        {"A": "b"},
        umask=0o077,
    )


def test_a_record_says_everything_about_a_process(tmp_path: Path) -> None:
    gate = Gate.of(Compiler(), Evidence())
    before = look(tmp_path)
    first, second = gate.compiled([_request(tmp_path), _request(tmp_path, "other")], before)
    assert (first.number, second.number, first.kind) == (1, 2, ProcessKind.COMPILE)
    assert first.request == _request(tmp_path)
    assert first.delivered == (tmp_path / "out.om",)
    assert first.before == before
    assert first.before[tmp_path].files == {}
    assert first.after[tmp_path].files["out.om"].owner == tmp_path.stat().st_uid
    assert first.after is second.after
    assert first.status == 0
    assert (gate.evidence.starts, gate.evidence.compiles) == (2, 4)
    assert list(gate.runs) == [first, second]


@pytest.mark.parametrize("status", [1, -9, None])
def test_a_record_says_how_a_process_ended(tmp_path: Path, status: int | None) -> None:
    (run,) = Gate.of(Compiler(status)).compiled([_request(tmp_path)])
    assert run.status == status
    assert run.before == run.after == {}


def test_a_process_is_counted_when_it_starts_and_recorded_once(tmp_path: Path) -> None:
    gate = Gate.of(Compiler())
    process = gate.start_static(StaticRequest(Program.PACKAGE, ("p.run",), tmp_path))
    assert gate.evidence.starts == 1
    assert not gate.runs
    assert process.running == "the process"
    result = process.wait()
    with pytest.raises(StopIteration):  # nobody can wait twice
        process.wait(1.0)
    (run,) = gate.runs
    assert run.result is result
    assert (run.kind, run.status) == (ProcessKind.STATIC, -signal.SIGSEGV)


def test_running_a_kernel_is_recorded_but_no_run_of_the_compiler(tmp_path: Path) -> None:
    gate = Gate.of(Compiler())
    assert gate.run_kernel(tmp_path / "a.om", ABS, ["x"]) == ["x"]
    with pytest.raises(KernelRunError):
        gate.outputs(tmp_path / "a.om", ABS, [])
    assert [(run.number, run.kind, run.status) for run in gate.runs] == [
        (0, ProcessKind.KERNEL, 0),
        (0, ProcessKind.KERNEL, 1),
    ]
    assert gate.evidence.starts == 0


def test_what_another_program_starts_passes_too(tmp_path: Path) -> None:
    gate = Gate.of(Compiler())
    assert gate.by_hand(ByHand("p.run", tmp_path), lambda: 3) == 3
    assert (gate.evidence.starts, gate.runs[-1].status) == (1, 3)


def test_what_cannot_be_started_is_not_counted(tmp_path: Path) -> None:
    gate = Gate.of(BaseToolchain())
    gate._toolchain.name = "nothing"
    with pytest.raises(ToolchainError):
        gate.compile_together([_request(tmp_path)])
    assert gate.evidence.starts == 0


def test_invariants_are_asked_about_every_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they find breaks the check, unless it has ended and its runs look for harm."""
    fact = Fact(Aspect.FILES, "touched", run=1)
    monkeypatch.setattr(
        gates, "broken_invariants", lambda run, _: [fact] if run.number == 1 else ()
    )
    gate = Gate.of(Compiler())
    with pytest.raises(AssertionError):
        gate.compiled([_request(tmp_path)])
    gate.run_kernel(tmp_path / "a.om", ABS, ["x"])
    assert gate.evidence.facts == [fact]


def test_a_file_that_a_request_names_stays_as_it_was(tmp_path: Path) -> None:
    """Of conversions, packages and compiles alike."""
    named = tmp_path / "mine.ini"
    named.write_text("Exp=high_precision\n")

    class Rewriting(Compiler):
        def compile_together(self, requests):
            named.write_text("Exp = high_precision\n")
            return super().compile_together(requests)

    request = replace(_request(tmp_path), raw_options={"op_precision_mode": str(named)})
    with pytest.raises(AssertionError, match=r"mine\.ini, which was there before, has another"):
        Gate.of(Rewriting()).compiled([request])


def test_a_gate_is_the_toolchain_in_everything_else() -> None:
    toolchain = Compiler()
    toolchain.network_layout = "another"
    gate = Gate.of(toolchain)
    assert (gate.name, gate.capabilities) == ("compiler", frozenset(Capability))
    assert gate.network_layout == "another"
    assert getattr(gate, "unusable", "") == ""
    assert not hasattr(gate, "start_gang")  # it would start processes past the gate


def test_for_whom_a_gate_counts(tmp_path: Path) -> None:
    first, second, later = Evidence(), Evidence(), Evidence()
    gate = Gate.of(Compiler(), first)
    assert Gate.of(gate) is gate
    Gate.of(gate, second).compiled([_request(tmp_path)])
    assert (first.starts, second.starts) == (0, 1)
    cache = CacheUnderTest(gate, tmp_path / "sandbox", PositiveControl())
    cache.toolchain.compiled([_request(tmp_path)])
    assert (first.starts, cache.evidence.starts) == (1, 0)
    cache.evidence = later
    cache.toolchain = Compiler()
    cache.toolchain.compiled([_request(tmp_path)])
    assert (first.starts, later.starts) == (1, 1)
