"""``ci/verify-cann``: how it compares two reports, and how it orders and counts mutants."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.project.conftest import CI, CiModule

_DIFFERENCE = '[[difference]]\nrule = "a/rule"\ncheck = "test_b*"\nreason = "as it is"\n'


def _agreement(
    directory: Path, differences: str, real: str, profile: str
) -> subprocess.CompletedProcess[str]:
    """Compare two reports that agree on ``test_a`` and have these verdicts of ``test_b[x]``."""
    shutil.copy(CI / "cann/agreement.py", directory)
    (directory / "differences.toml").write_text(differences, encoding="utf-8")
    for name, verdict in (("real", real), ("profile", profile)):
        checks = [
            {"rule": "a/rule", "check": "suite/test_it.py::test_a", "verdict": "pass"},
            {"rule": "a/rule", "check": "suite/test_it.py::test_b[x]", "verdict": verdict},
        ]
        (directory / f"{name}.json").write_text(json.dumps({"checks": checks}), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "agreement.py", "real.json", "profile.json"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def cann(ci_module: CiModule) -> CiModule:
    """Import a module of ``ci/cann``."""
    return lambda name: ci_module(f"cann/{name}")


@pytest.mark.parametrize(
    ("differences", "real", "profile", "code", "says"),
    [
        ("difference = []", "known deviation", "fail", 0, "in 2 of 2 checks"),
        ("difference = []", "undecided", "fail", 0, "in 1 of 1 checks"),
        ("difference = []", "fail", "pass", 1, "test_b[x]: broken by only CANN's code"),
        ("difference = []", "pass", "warn", 1, "test_b[x]: broken by only the profile"),
        (_DIFFERENCE, "pass", "warn", 0, "in 1 of 2 checks"),
        (_DIFFERENCE, "pass", "pass", 1, "explained, but the verdicts agree: a/rule test_b*"),
    ],
)
def test_a_difference_needs_a_reason_and_a_reason_a_difference(
    tmp_path: Path, differences: str, real: str, profile: str, code: int, says: str
) -> None:
    ended = _agreement(tmp_path, differences, real, profile)
    assert (ended.returncode, ended.stderr) == (code, "")
    assert says in ended.stdout


def test_mutants_of_all_files_take_turns(cann: CiModule) -> None:
    """Files take turns even if one has nearly all mutants."""
    mutation = cann("mutation")
    long, short = mutation.TARGETS[5], mutation.TARGETS[0]
    made = [mutation.Mutant(long, line, "constant", "a", "b") for line in range(50)]
    made += [mutation.Mutant(short, line, "constant", "a", "b") for line in range(2)]
    order = mutation.sample(made, seed=1)
    assert sorted(each.line for each in order) == sorted(each.line for each in made)
    assert [each.file for each in order[:4]] == [short, long, short, long]
    assert order != mutation.sample(made, seed=2)


def test_a_mutant_has_a_name_of_its_own_wherever_its_line_moves(
    cann: CiModule, tmp_path: Path
) -> None:
    mutation = cann("mutation")
    names = []
    for moved in ("", "\n\n"):
        for file in mutation.TARGETS:
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text(f"{moved}if (a == b) {{\n}}\nif (a == b) {{\n}}\n")
        # The first line is not executed. That must not change the name of the second one's mutant.
        executed = {mutation.TARGETS[0]: {3 + len(moved)}}
        names += [str(each) for each in mutation.mutants(tmp_path, executed)]
    name = "te_cache_manager.cc: if (a == b) {  ->  if (a != b) { (the 2. of them)"
    assert names == [name, name]


@pytest.mark.parametrize(
    ("body", "drawn"),
    [
        ('TE_WARNLOG("%d",\n    f(1));', False),
        ('FE_LOGD("a");\n  TE_DBGLOG("b")', False),
        ('TE_INFOLOG("a");\n  return false;', True),
        ("d = 1;", True),
        ('TE_INFOLOG("a");\n} else {\n  d = 1;', True),
    ],
)
def test_a_condition_that_decides_about_logs_alone_is_not_drawn(
    cann: CiModule, tmp_path: Path, body: str, drawn: bool
) -> None:
    mutation = cann("mutation")
    for file in mutation.TARGETS:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(f"if (a == b) {{\n  {body}\n}}\n")
    assert bool(list(mutation.mutants(tmp_path, {mutation.TARGETS[0]: {1}}))) == drawn


def test_survivors_that_change_nothing_promised_are_left_out_of_the_share(
    cann: CiModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An undecided check notices nothing, and neither does one that also fails on the original."""
    mutation = cann("mutation")
    judging = cann("judging")
    mutants = cann("mutants")
    made = [mutation.Mutant("a.cc", line, "constant", f"{line};", ";") for line in range(6)]
    looked_at = [
        mutation.Survivor(str(made[2]), "equivalent", "nothing changes"),
        mutation.Survivor(str(made[3]), "missed", "no check asks"),
    ]
    known = {each.mutant: each for each in looked_at}
    monkeypatch.setattr(mutants, "survivors", lambda: known)
    words = ["noticed", "noticed", "missed", "missed", "undecided", "missed"]
    checks = ["a check", "a doubtful one", "", "", "another", ""]
    answers = map(judging.Answer, words, checks)
    tally = mutants.Tally(dict(zip(made, answers, strict=True)))
    assert tally.share({"a doubtful one"}).endswith("1 of 5 (20%)")


def test_answers_are_kept_as_far_as_they_hold(cann: CiModule, tmp_path: Path) -> None:
    mutation = cann("mutation")
    judging = cann("judging")
    mutants = cann("mutants")
    made = [mutation.Mutant("a.cc", line, "constant", f"{line};", ";") for line in range(3)]
    quick, whole, older = judging.Way("9.1", True), judging.Way("9.1"), judging.Way("9.0")
    kept = mutants.Kept(tmp_path / "made/kept.jsonl", quick)
    answers = [judging.Answer(word, "a") for word in ("noticed", "missed", "undecided")]
    for mutant, answer in zip(made, answers, strict=True):
        kept.add(mutant, answer)
    names = [str(each) for each in made]
    assert dict(kept.answers()) == dict(zip(names[:2], answers[:2], strict=True))
    for way, noticed in ((whole, names[:1]), (older, [])):
        assert [each for each, _ in mutants.Kept(kept.path, way).answers()] == noticed


def test_telling_checks_come_first_and_rules_that_a_file_is_about(
    cann: CiModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordering = cann("ordering")
    telling, dull = "cache_mode/test_a.py::test_telling", "cache_mode/test_a.py::test_dull"
    killed = {"a-defect": [SimpleNamespace(check=telling)]}
    monkeypatch.setattr(ordering.matrix, "read", lambda: killed)
    aging, force = "aging/bad-values", "cache-mode/parallel-force"
    rules = {dull: aging, telling: aging, "far.py::test_b": force, "far.py::test_c": force}
    order = ordering.order(rules, ["far.py::test_c", "gone.py::test_d"], ["aging/"], only=False)
    assert order == ["far.py::test_c", telling, dull, "far.py::test_b"]
    assert ordering.order(rules, [], ["aging/"], only=True) == [telling, dull]


def test_survivors_of_the_list_have_a_verdict_and_a_reason(cann: CiModule) -> None:
    mutation = cann("mutation")
    files = {Path(each).name for each in mutation.TARGETS}
    for name, survivor in mutation.survivors().items():
        assert survivor.why
        assert name.partition(": ")[0] in files
    with pytest.raises(ValueError, match="'perhaps' is not one of equivalent"):
        mutation.Survivor("a", "perhaps", "so")
