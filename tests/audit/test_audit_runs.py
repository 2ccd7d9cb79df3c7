"""``pytest --ascend-audit``: verdicts, bad input, and the plan of removals."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_ascendcache.caches import Snapshot
from pytest_ascendcache.qualification.scenes.caches import (
    KernelCache,
    akg_kernel,
    elf_object,
    kernel_cache,
    put,
    ranks,
)


@pytest.fixture
def runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A directory without tests, and an environment without limits."""
    for name in ("ASCEND_MAX_OP_CACHE_SIZE", "ASCEND_REMAIN_CACHE_SIZE_RATIO"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider\n")
    return pytester


@dataclass(frozen=True)
class Audited:
    """Runs pytest on an undamaged cache outside the working directory."""

    runs: pytest.Pytester
    cache: KernelCache

    def run(self, *arguments: str) -> pytest.RunResult:
        """Run pytest with an audit of the cache."""
        return self.runs.runpytest_subprocess(f"--ascend-audit={self.cache.root}", *arguments)


@pytest.fixture
def audited(runs: pytest.Pytester, tmp_path: Path) -> Audited:
    return Audited(runs, kernel_cache(tmp_path / "atc_data"))


def test_a_sound_cache_passes_without_a_toolchain(audited: Audited) -> None:
    result = audited.run("--ascend-atc=/no/such/atc")
    assert result.ret == 0
    result.assert_outcomes(passed=14, skipped=2)
    result.stdout.fnmatch_lines(
        [
            "ascendcache: no toolchain is judged, on *",
            f"ascendcache: audit of {audited.cache.root}",
            "*pass 1*audit/whole-entries*Every entry has all of its files",
            "*2 x CANN operator cache of one SoC; 5 entries, 14 files",
            "*not applicable 1*audit/ranks-agree*",
        ]
    )


def test_a_test_of_ones_own_is_no_part_of_the_suite(audited: Audited) -> None:
    audited.runs.makepyfile(test_mine="def test_mine(): assert False")
    mine = ("test_mine.py", "-k", "not test_mine.py")
    result = audited.run(*mine)
    assert result.ret == 0
    assert "May be shipped: everything that was judged passed." in result.outlines


def test_a_broken_cache_fails_and_says_what(audited: Audited) -> None:
    audited.cache.entries[2].object.write_bytes(elf_object(b"another"))
    audited.cache.entries[1].metadata.chmod(0o666)
    report = audited.runs.path / "report.json"
    result = audited.run(f"--ascend-report={report}", "-q")
    assert result.ret == 1
    root = audited.cache.root
    name = audited.cache.entries[2].object.name
    result.stdout.fnmatch_lines(
        [
            "*fail 1*audit/digests*",
            "*warn 1*audit/private-modes*",
            f"why *1 fault, * in {root}: kernel_cache/Ascend910B1/*: sha256 is *",
            f"repeat   *pytest --ascend-audit={root} --pyargs *.test_audit::test_audit?*",
        ]
    )
    checks = {each["rule"]: each for each in json.loads(report.read_text())["checks"]}
    (finding,) = checks["audit/digests"]["evidence"]["findings"]
    assert finding["path"] == f"kernel_cache/Ascend910B1/{name}"
    assert finding["bytes"] == audited.cache.entries[2].object.stat().st_size
    strict = audited.run("--ascend-strict", "--ascend-rule=audit/private-modes")
    assert strict.ret == 1


def test_the_repeat_command_repeats(audited: Audited) -> None:
    audited.cache.entries[2].object.unlink()
    result = audited.run()
    (line,) = [each for each in result.outlines if each.startswith("repeat ")]
    command = shlex.split(line.removeprefix("repeat"))
    again = audited.runs.runpytest_subprocess(*command[command.index("pytest") + 1 :])
    again.assert_outcomes(failed=1)


def test_several_directories_are_judged_beside_the_suite_and_on_workers(
    audited: Audited, tmp_path: Path
) -> None:
    ranks(tmp_path / "job")
    result = audited.runs.runpytest_subprocess(
        "--ascend-cache",
        *(f"--ascend-audit={each}" for each in (audited.cache.root, tmp_path / "job")),
        "--ascend-rule=audit/ranks-agree",
        "--ascend-rule=cache-mode/default-is-disable",
        *("-n", "2"),
    )
    assert result.ret == 0
    result.assert_outcomes(passed=4, skipped=1)


def test_tests_in_an_audited_directory_are_not_run(audited: Audited) -> None:
    inside = audited.runs.path / "data"
    shutil.copytree(audited.cache.root, inside)
    put(inside / "test_evil.py", "def test_evil(): assert False")
    put(inside / "kernel_cache" / "conftest.py", "raise SystemExit('loaded')")
    result = audited.runs.runpytest_subprocess(f"--ascend-audit={inside}", ".")
    result.assert_outcomes(passed=14, skipped=2)


def test_tests_that_happen_to_be_around_are_not_run(audited: Audited) -> None:
    audited.runs.makepyfile(test_mine="def test_mine(): pass")
    alone = audited.run()
    alone.assert_outcomes(passed=14, skipped=2)
    named = audited.run("test_mine.py")
    named.assert_outcomes(passed=15, skipped=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ascend-audit={tmp}/nowhere"], "*--ascend-audit=*nowhere does not exist; name a *"),
        (["--ascend-audit={tmp}/file"], "*--ascend-audit=*file is not a directory; name a *"),
        (["--ascend-audit={tmp}/other"], "*--ascend-audit=*other holds no known cache*"),
        (["--ascend-audit-fix=plan.sh"], "*--ascend-audit-fix=*plan.sh needs a directory*"),
        (
            ["--ascend-audit={tmp}/atc_data", "--ascend-audit-fix={tmp}/link/plan.sh"],
            "*--ascend-audit-fix=*plan.sh would be written in *atc_data, which is audited*",
        ),
        (
            ["--ascend-audit={tmp}/atc_data", "--basetemp={tmp}"],
            "*--basetemp=* would be written in *atc_data, which is audited*",
        ),
        (
            ["--ascend-audit={tmp}/atc_data", "--ascend-audit-fix={tmp}/nowhere/plan.sh"],
            "*--ascend-audit-fix=*plan.sh: the directory *nowhere does not exist*",
        ),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], message: str, runs: pytest.Pytester, tmp_path: Path
) -> None:
    kernel_cache(tmp_path / "atc_data")
    put(tmp_path / "other" / "README", "no cache")
    (tmp_path / "file").write_text("a file")
    (tmp_path / "link").symlink_to("atc_data")
    before = Snapshot.take(tmp_path)
    argv = [each.format(tmp=tmp_path) for each in arguments]
    result = runs.runpytest_subprocess(*argv)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert before.changes(Snapshot.take(tmp_path)) == {}


def test_pytests_own_cache_is_not_put_into_an_audited_directory(audited: Audited) -> None:
    audited.runs.makeini("[pytest]")
    result = audited.run(f"--rootdir={audited.cache.root}", "-c", os.devnull)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*pytest's own cache *.pytest_cache * would be written in *"])
    assert not (audited.cache.root / ".pytest_cache").exists()


def _plan(runs: pytest.Pytester, plan: Path, *directories: Path) -> pytest.RunResult:
    return runs.runpytest_subprocess(
        *(f"--ascend-audit={each}" for each in directories), f"--ascend-audit-fix={plan}", "-q"
    )


def _carry_out(plan: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(plan)], capture_output=True, text=True, check=False, timeout=60
    )


def test_a_plan_removes_what_is_broken_and_nothing_else(audited: Audited, tmp_path: Path) -> None:
    outside = put(tmp_path / "outside", b"precious")
    one, two, three, four = audited.cache.entries
    one.object.unlink()
    two.object.write_bytes(elf_object(b"another"))
    three.metadata.write_bytes(b"")
    (audited.cache.soc / "link").symlink_to(outside)
    four.object.symlink_to(four.object.rename(tmp_path / "store"))
    put(audited.cache.soc / f"{four.object.name}_1_2_3.temp", b"half")
    kernels = ranks(tmp_path / "job")
    kernels[1][0].metadata.with_suffix(".info").unlink()
    akg_kernel(tmp_path / "akg").object.unlink()
    before = Snapshot.take(tmp_path)
    plan = audited.runs.path / "plan.sh"
    places = (audited.cache.root, tmp_path / "job", tmp_path / "akg")
    result = _plan(audited.runs, plan, *places)
    result.stdout.fnmatch_lines([f"removal of 7 entries or files suggested in {plan}"])
    assert {*before.changes(Snapshot.take(tmp_path)).values()} <= {"read"}
    ended = _carry_out(plan)
    assert (ended.returncode, ended.stdout) == (0, "7 removed, 0 kept\n")
    gone = {
        *(one.metadata, two.metadata, two.object, three.metadata, three.object),
        *(audited.cache.soc / "link", audited.cache.soc / f"{four.object.name}_1_2_3.temp"),
        *(kernels[1][0].metadata, kernels[1][0].object),
        *(tmp_path / each for each in before.files if "Fused" in Path(each).name),
    }
    after = Snapshot.take(tmp_path)
    assert {tmp_path / each for each in before.files if each not in after.files} == gone
    assert outside.read_bytes() == b"precious"
    again = audited.run()
    assert again.ret == 0


def test_a_plan_keeps_what_has_changed_since(audited: Audited) -> None:
    healed, half = audited.cache.entries[1], audited.cache.entries[2]
    healed.object.write_bytes(b"")
    half.metadata.unlink()
    plan = audited.runs.path / "plan.sh"
    _plan(audited.runs, plan, audited.cache.root)
    healed.replace_object(elf_object(b"compiled again"))
    put(half.metadata, "{}")
    ended = _carry_out(plan)
    assert ended.returncode == 1
    lines = ended.stdout.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("kept, it has changed: kernel_cache/") for line in lines[:-1])
    assert lines[-1] == "0 removed, 2 kept"
    assert healed.object.exists()
    assert half.object.exists()


@pytest.mark.parametrize(
    "name",
    [
        "te_a'b\"c`touch ../evil`$(touch ../evil).temp",
        "te_line\nrm -rf ..\n.temp",
        "-rf.temp",
        "te_\udcff\udcfe.temp",
        "te_新 * ?.temp",
    ],
)
def test_a_plan_is_safe_for_any_name(name: str, runs: pytest.Pytester, tmp_path: Path) -> None:
    cache = kernel_cache(tmp_path / "a 'quoted'\n$(place)")
    leftover = put(cache.soc / name, b"left")
    before = Snapshot.take(tmp_path)
    plan = runs.path / "plan.sh"
    _plan(runs, plan, cache.root)
    ended = _carry_out(plan)
    assert (ended.returncode, ended.stdout) == (0, "1 removed, 0 kept\n")
    after = Snapshot.take(tmp_path)
    assert {*before.files} - {*after.files} == {str(leftover.relative_to(tmp_path))}
    assert {*after.files} <= {*before.files}


def test_a_plan_is_written_once_with_workers(audited: Audited) -> None:
    audited.cache.entries[1].object.unlink()
    plan = audited.runs.path / "plan.sh"
    audited.run(f"--ascend-audit-fix={plan}", "-n", "2")
    assert plan.read_text().count("\nentry '") == 1
    assert [each.name for each in audited.runs.path.glob("*plan*")] == ["plan.sh"]


def test_a_directory_that_vanishes_before_it_is_read_is_an_error(
    audited: Audited, tmp_path: Path
) -> None:
    audited.runs.makeconftest(
        f"""
        import os

        def pytest_collection_finish():
            os.rename({str(audited.cache.root)!r}, {str(tmp_path / "elsewhere")!r})
        """
    )
    result = audited.run(".")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*16 checks: 0 pass, * 16 undecided", "*changed while it was read*"]
    )


def test_whoever_may_not_read_gets_an_error(audited: Audited) -> None:
    if not os.geteuid():
        pytest.skip(
            "root may read everything; tests/audit/test_audit.py does this as an ordinary user"
        )
    audited.cache.entries[1].object.chmod(0)
    result = audited.run()
    result.stdout.fnmatch_lines(["*undecided 1*audit/digests*"])
