"""``ci/verify-mindspore-ascend``: the releases it judges, its scripts, and the changes it makes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from pytest_ascendcache.contract.toml import tomllib
from tests.project.conftest import CI, PYTHON, Checkout, CiModule

HOME = CI / "mindspore_ascend"
FINDINGS = tomllib.loads((HOME / "findings.toml").read_text(encoding="utf-8"))["finding"]
CHANGES = tomllib.loads((HOME / "changes.toml").read_text(encoding="utf-8"))["change"]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A checkout with a .venv that is set up."""
    checkout = Checkout(tmp_path, "verify-mindspore-ascend")
    checkout.program(".venv/bin/ascendcache-compare", '#!/bin/sh\necho "compared: $*"\n')
    checkout.program(".venv/bin/python", PYTHON)
    return checkout


def test_the_documents_release_is_judged_and_the_time_told_first(checkout: Checkout) -> None:
    output = checkout.run("verify-mindspore-ascend")
    before, _, after = output.partition("judging MindSpore 1.6.2: about five minutes")
    assert "started: -m pytest " not in before
    python = "/build/mindspore-ascend/1.6.2/python"
    assert f"--ascend-select=core --ascend-toolchain=mindspore-ascend:{python}" in after
    assert "ascend_mindspore_other" not in after
    assert "--ascend-select=whole" in checkout.run("verify-mindspore-ascend", "--full")


def test_each_release_finds_the_cache_of_the_one_before(checkout: Checkout) -> None:
    output = checkout.run("verify-mindspore-ascend", "1.6.2", "1.7.0", "-k", "info")
    shelf = "/build/mindspore-ascend"
    pair = f"{shelf}/1.7.0/python -o ascend_mindspore_other={shelf}/1.6.2/python"
    assert pair in output
    assert output.count("-k info") == 2


@pytest.mark.parametrize("what", ["--findings", "--changes"])
def test_a_page_and_changes_take_releases_alone(checkout: Checkout, what: str) -> None:
    program = {"--findings": "sentences.py", "--changes": "wheel_changes.py"}[what]
    output = checkout.run("verify-mindspore-ascend", "1.9.0", what)
    assert f"ci/mindspore_ascend/{program} /build/mindspore-ascend 1.9.0" in output
    message = f"{what} takes no other arguments, not '-x'; leave them out."
    assert message in checkout.run("verify-mindspore-ascend", what, "-x", status=2)


def test_a_release_is_named_once(checkout: Checkout) -> None:
    output = checkout.run("verify-mindspore-ascend", "1.6.2", "1.6.2", status=2)
    assert "1.6.2 is named twice; name each release once." in output


# --- the scripts of the page ----------------------------------------------------------------


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda each: each["title"][:40])
def test_a_script_is_short_and_plain(finding: dict[str, str]) -> None:
    assert len(finding["script"].strip().splitlines()) <= 15
    assert "pytest" not in finding["script"]
    subprocess.run(["bash", "-n", "-c", finding["script"]], check=True)
    for pattern in ("kept", "broken"):
        re.compile(finding.get(pattern, ""))
    assert finding["title_zh"]
    assert bool(finding.get("note")) == bool(finding.get("note_zh"))


def test_what_was_printed_decides_and_runs_must_agree(ci_module: CiModule) -> None:
    sentences = ci_module("mindspore_ascend/sentences")
    finding = sentences.load()[1]
    kept, broken = "exit 0, compiled: 0", "exit 0, compiled: 2"
    assert [finding.judged(each) for each in (kept, broken, "")] == ["kept", "broken", "unclear"]
    assert sentences.Tried(("broken", "kept", "broken"), "").verdict == "unclear"


def test_the_page_has_a_column_for_each_release_in_both_languages(ci_module: CiModule) -> None:
    sentences = ci_module("mindspore_ascend/sentences")
    findings = sentences.load()
    results = {
        (each.title, release): sentences.Tried((verdict,), f"printed by {release}")
        for each in findings
        for release, verdict in (("1.6.2", "kept"), ("1.7.0", "broken"))
    }
    for language, broken in (("en", "**broken**"), ("zh", "**不符合**")):
        page = sentences.page(language, findings, results, ["1.6.2", "1.7.0"])
        rows = [line for line in page.splitlines() if line.startswith("| 1. ")]
        assert len(rows) == 1
        assert rows[0].endswith(f"| {broken} |")
        assert "printed by 1.7.0" in page


def test_results_are_kept_for_their_script_alone(ci_module: CiModule, tmp_path: Path) -> None:
    sentences = ci_module("mindspore_ascend/sentences")
    first, second = sentences.load()[1:3]
    path = tmp_path / "kept.json"
    result = sentences.Tried(("kept",), "exit 0, compiled: 0", ("exit 0, compiled: 0",))
    sentences.Kept(path).write(first, None, result)
    again = sentences.Kept(path)
    assert again.read(first, None).verdict == "kept"
    assert again.read(second, None) is None


# --- changes --------------------------------------------------------------------------------


def test_there_are_twenty_changes_that_differ() -> None:
    assert len({each["name"] for each in CHANGES}) == 20
    assert all(each["old"] != each["new"] for each in CHANGES)


def test_a_change_is_made_in_a_copy(ci_module: CiModule, tmp_path: Path) -> None:
    changes = ci_module("mindspore_ascend/wheel_changes")
    release = tmp_path / "1.6.2"
    package = release / "wheel/mindspore"
    (package / "_extends").mkdir(parents=True)
    (package / "lib").mkdir()
    (package / "context.py").write_text("def set_context(**kwargs):\n    pass\n")
    (release / "python").write_text("#!/bin/sh\nexport PYTHONPATH=here\nexec python\n")
    change = changes.Change("n", "wheel", "context.py", "set_context", "other")
    python = changes.changed(release, change, tmp_path / "target")
    assert "set_context" in (package / "context.py").read_text()
    changed = tmp_path / "target/site/mindspore/context.py"
    assert changed.read_text() == "def other(**kwargs):\n    pass\n"
    assert str(tmp_path / "target/site") in python.read_text()
    gone = changes.Change("n", "wheel", "context.py", "gone", "")
    with pytest.raises(ValueError, match=r"n: context\.py does not hold 'gone'"):
        changes.changed(release, gone, tmp_path / "another")


@pytest.mark.parametrize("change", [each for each in CHANGES if each["in"] == "stand-ins"])
def test_the_stand_ins_have_what_is_changed(change: dict[str, str]) -> None:
    native = CI.parent / "pytest_ascendcache/toolchains/mindspore_ascend/native/python"
    assert change["old"] in (native / change["file"]).read_text(encoding="utf-8")
