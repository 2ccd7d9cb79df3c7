"""``ci/verify-mindspore``: the releases it judges, and the scripts of the ten worst findings."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_ascendcache.contract.toml import tomllib
from tests.project.conftest import CI, PYTHON, Checkout, CiModule

TOP_TEN = tomllib.loads((CI / "mindspore/top_ten.toml").read_text(encoding="utf-8"))["finding"]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A checkout with a list of known deviations, and a .venv that is set up."""
    checkout = Checkout(tmp_path, "verify-mindspore")
    lists = tmp_path / "pytest_ascendcache/contract/deviations"
    lists.mkdir(parents=True)
    (lists / "mindspore-2.10.0.toml").touch()
    checkout.program(".venv/bin/ascendcache-compare", '#!/bin/sh\necho "compared: $*"\n')
    checkout.program(".venv/bin/python", PYTHON)
    return checkout


def test_it_says_how_long_it_takes_before_it_begins(checkout: Checkout) -> None:
    output = checkout.run("verify-mindspore")
    before, _, after = output.partition("judging MindSpore 2.10.0: everything, about ")
    assert "started: -m pytest" not in before
    assert "minutes" in after.splitlines()[0]
    assert "ascend_mindspore_other" not in after


def test_two_releases_find_each_others_caches_and_are_compared(checkout: Checkout) -> None:
    output = checkout.run("verify-mindspore", "2.10.0", "2.9.0", "-k", "damaged")
    new, old = "/.venv-mindspore/bin/python", "/.venv-mindspore-2.9.0/bin/python"
    for judged, other in ((new, old), (old, new)):
        assert f":{judged} -o ascend_mindspore_other={other}" in output
    assert "there is no list of known deviations of 2.9.0; that of 2.10.0" in output
    assert "judging MindSpore 2.10.0 2.9.0: what -k damaged selects" in output
    tables = r"ci/releases_page.py .*mindspore-releases.md( \S+-(2.10.0|2.9.0)-1.json){4}"
    assert re.search(tables, output)


def test_findings_are_repeated_of_the_first_release_alone(checkout: Checkout) -> None:
    output = checkout.run("verify-mindspore", "2.10.0", "2.9.0", "--findings")
    (page,) = re.findall(r"ci/findings_page.py --output (.*)", output)
    assert page.startswith("docs/findings/mindspore-2.10.0.md --setting ")
    assert "2.9.0-1.json" not in page
    assert "--output docs/findings/mindspore-releases.md" in output
    assert (
        "scripts.py /.venv-mindspore/bin/python /build/mindspore/setting.md --setting 2.10.0 2.9.0"
        in output
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("2.9.0", "2.9.0"), "2.9.0 is named twice; name each release once."),
        (("--scripts", "-x"), "--scripts takes no other arguments, not '-x'; leave them out."),
        (("9.9",), "there is no wheel of MindSpore 9.9 for Python 3.11.0 on this machine"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    checkout: Checkout, arguments: tuple[str, ...], message: str
) -> None:
    assert message in checkout.run("verify-mindspore", *arguments, status=2)


# --- the scripts of the page ----------------------------------------------------------------


@pytest.mark.parametrize("finding", TOP_TEN, ids=lambda each: each["title"][:30])
def test_a_script_is_short_and_plain(finding: dict[str, str]) -> None:
    lines = finding["script"].strip().splitlines()
    assert len(lines) <= 15
    assert "ascendcache" not in finding["script"]
    subprocess.run(["bash", "-n", "-c", finding["script"]], check=True)
    re.compile(finding["shows"])
    assert all(finding[each] for each in ("impact", "expected", "source", "fix", "harm", "cache"))


def test_ten_findings_are_told() -> None:
    assert len(TOP_TEN) == 10


def test_the_page_has_all_of_an_error_and_says_what_was_not_seen(
    ci_module: CiModule, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scripts = ci_module("mindspore/scripts")
    fields = {each: each for each in ("impact", "expected", "source", "fix", "harm", "cache")}
    rest = "\n".join(f"{key} = '{value}'" for key, value in fields.items())
    findings = tmp_path / "findings.toml"
    findings.write_text(
        f"[[finding]]\ntitle = 'one'\n{rest}\nshows = 'ERROR.*broken'\n"
        "script = 'echo \"[ERROR] it is broken\" >&2; echo below $PWD'\n"
        f"[[finding]]\ntitle = 'two'\n{rest}\nshows = 'never'\nscript = 'exit 3'\n"
    )
    page = tmp_path / "page.md"
    assert scripts.main([sys.executable, str(page), f"--findings={findings}"]) == 1
    text = page.read_text()
    assert "```text\n[ERROR] it is broken\nbelow $PWD\n```" in text
    assert "1 of 2 were seen in this run" in text
    assert "NOT SEEN in this run" in text.partition("## 2. two")[2]
    assert "| Python | Python 3" in text
    assert capsys.readouterr().out.split() == ["True", "one", "False", "two"]
