"""Beside other plugins: every reporter and the exit status say what our verdict says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGINS = Path(sys.prefix) / "plugins"
"""Where ci/setup installs the plugins of other people; only these tests load them."""

CHECKS = """
import pytest
from pytest_ascendcache import operator

ADD = operator("Add", "float16", 4, 8)

def check(rule):
    return pytest.mark.ascend_rule(rule)

@check("cache-mode/enable-stores")
def test_passes(ascend_cache):
    assert ascend_cache.compile(ADD, mode="enable")[ADD].stored

@check("cache-mode/enable-stores")
def test_fails(ascend_cache):
    assert ascend_cache.compile(ADD, mode="enable")[ADD].kept

@check("cache-mode/key-ignores-names")
def test_warns(ascend_cache):
    assert ascend_cache.compile(ADD, mode="enable")[ADD].kept

@check("cache-mode/enable-stores")
@pytest.mark.xfail(reason="bug 7")
def test_is_known(ascend_cache):
    assert ascend_cache.compile(ADD, mode="enable")[ADD].kept

@check("cache-mode/enable-stores")
def test_cannot_tell(ascend_cache):
    ascend_cache.entry(ADD)

@check("cache-mode/enable-stores")
def test_flickers(ascend_cache, request):
    assert ascend_cache.compile(ADD, mode="enable")[ADD].stored
    seen = request.config.rootpath / "flickered"
    if not seen.exists():
        seen.touch()
        pytest.fail("broken once")

@pytest.mark.ascend_ranks(2)
@check("ranks/isolated")
def test_gang_passes(ascend_rank, ascend_cache):
    ascend_cache.warm(ADD)
    ascend_rank.barrier()

@pytest.mark.ascend_ranks(2)
@check("ranks/isolated")
def test_gang_fails(ascend_rank, ascend_cache):
    ascend_cache.warm(ADD)
    assert ascend_rank.rank == 0
    ascend_rank.barrier()
"""
VERDICTS = {
    "test_passes": "pass",
    "test_fails": "fail",
    "test_warns": "warn",
    "test_is_known": "known deviation",
    "test_cannot_tell": "undecided",
    "test_flickers": "fail",
    "test_gang_passes": "pass",
    "test_gang_fails": "fail",
}
OTHERS = {
    "pass": "passed",
    "warn": "passed",
    "fail": "failed",
    "undecided": "failed",
    "known deviation": "xfailed",
}
"""What a verdict is for a plugin that knows pytest's outcomes only."""


def _junit(place: Path) -> dict[str, str]:
    found = {}
    for case in ElementTree.parse(place / "junit.xml").iter("testcase"):
        kinds = {each.tag: each for each in case if each.tag in ("failure", "error", "skipped")}
        outcome = "failed" if kinds.keys() & {"failure", "error"} else "passed"
        if "skipped" in kinds and kinds["skipped"].get("type") == "pytest.xfail":
            outcome = "xfailed"
        found[_plain(case.get("name", "").rpartition(": ")[2])] = outcome
    return found


def _allure(place: Path) -> dict[str, str]:
    words = {"passed": "passed", "failed": "failed", "broken": "failed", "skipped": "xfailed"}
    results = (json.loads(each.read_text()) for each in place.glob("allure/*-result.json"))
    return {_plain(each["name"]): words[each["status"]] for each in results}


def _html(place: Path) -> dict[str, str]:
    page = (place / "page.html").read_text(encoding="utf-8")
    (blob,) = re.findall(r'data-jsonblob="([^"]*)"', page)
    tests = json.loads(unescape(blob))["tests"]
    return {
        _plain(name.rpartition("::")[2]): each["result"].lower()
        for name, each in ((name, runs[-1]) for name, runs in tests.items())
    }


def _plain(name: str) -> str:
    return name.partition("[")[0]


@dataclass(frozen=True)
class Beside:
    """Options of a run beside other plugins, and how to read what they report."""

    options: str
    reads: tuple[object, ...] = ()
    runs: frozenset[str] = frozenset(VERDICTS)
    ends: int = 1


TABLE = {
    "alone": Beside("--junitxml=junit.xml", (_junit,)),
    "allure": Beside("-p allure_pytest.plugin --alluredir=allure", (_allure,)),
    "html": Beside(
        "-p pytest_metadata.plugin -p pytest_html.plugin -p pytest_html.fixtures "
        "--html=page.html --self-contained-html",
        (_html,),
    ),
    "rerunfailures": Beside("-p rerunfailures --reruns=2 --junitxml=junit.xml", (_junit,)),
    "randomly": Beside("-p randomly"),
    "timeout": Beside("-p timeout --timeout=600"),
    "cov": Beside("-p pytest_cov --cov=. --cov-report="),
    "sugar": Beside("-p sugar"),
    "xdist": Beside("-p xdist -p xdist.looponfail -n 2 --junitxml=junit.xml", (_junit,)),
    "xdist and rerunfailures": Beside(
        "-p xdist -p xdist.looponfail -n 2 -p rerunfailures --reruns=2"
    ),
    "xdist and allure": Beside(
        "-p xdist -p xdist.looponfail -n 2 -p allure_pytest.plugin --alluredir=allure", (_allure,)
    ),
    **{
        f"--dist={dist}": Beside(
            f"-p xdist -p xdist.looponfail -n 2 --dist={dist} -k test_passes-or-fails",
            runs=frozenset({"test_passes", "test_fails"}),
        )
        for dist in ("loadfile", "loadgroup", "worksteal")
    },
    "maxfail": Beside(
        "--maxfail=1 -k test_passes-or-fails", runs=frozenset({"test_passes", "test_fails"})
    ),
    "-k": Beside("-k fails", runs=frozenset({"test_fails", "test_gang_fails"})),
    "-x": Beside("-x -k test_passes-or-fails", runs=frozenset({"test_passes", "test_fails"})),
    "stepwise": Beside("--stepwise", runs=frozenset({"test_passes", "test_fails"}), ends=2),
}
BY_DAY = {"alone", "html", "rerunfailures", "randomly", "xdist", "maxfail", "-k", "-x", "stepwise"}
"""One of each kind: none, a page, repeats, an order, workers, and parts. Nightly runs use all."""
MODULES = {
    "rerunfailures": "pytest_rerunfailures",
    "randomly": "pytest_randomly",
    "timeout": "pytest_timeout",
    "pytest_cov": "pytest_cov.plugin",
    "sugar": "pytest_sugar",
    "xdist": "xdist.plugin",
}


def run(place: Path, options: str) -> subprocess.CompletedProcess[str]:
    words = [MODULES.get(each, each) for each in options.split()]
    words = [each.replace("-or-", " or test_") for each in words]
    environment = {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join((str(PLUGINS), str(ROOT))),
    }
    ours = ["-p", "pytest_ascendcache.plugin.hooks", "--ascend-cache", "--ascend-report=r.json"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *ours, *words, "test_checks.py"],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=() if each in BY_DAY else pytest.mark.nightly) for each in TABLE],
)
def test_every_reporter_says_what_we_say(name: str, tmp_path: Path) -> None:
    beside = TABLE[name]
    (tmp_path / "test_checks.py").write_text(CHECKS, encoding="utf-8")
    ended = run(tmp_path, beside.options)
    assert ended.returncode == beside.ends, ended.stdout + ended.stderr
    checks = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["checks"]
    ours = {_plain(each["check"].rpartition("::")[2]): each["verdict"] for each in checks}
    expected = {name: verdict for name, verdict in VERDICTS.items() if name in beside.runs}
    assert ours == expected, ended.stdout
    assert len(checks) == len(expected)
    for read in beside.reads:
        assert callable(read)
        assert read(tmp_path) == {name: OTHERS[each] for name, each in expected.items()}


def test_what_is_deselected_needs_no_workers(tmp_path: Path) -> None:
    """A gang of more ranks than there are workers is refused only if it runs."""
    (tmp_path / "test_checks.py").write_text(CHECKS.replace("ranks(2)", "ranks(4)"))
    options = "-p xdist -p xdist.looponfail -n 2"
    assert run(tmp_path, options).returncode == pytest.ExitCode.USAGE_ERROR
    assert run(tmp_path, f"{options} -k test_passes").returncode == pytest.ExitCode.OK


@pytest.mark.parametrize("dist", ["loadfile", "worksteal"])
def test_a_gang_under_another_distribution_is_refused_whole(dist: str, tmp_path: Path) -> None:
    (tmp_path / "test_checks.py").write_text(CHECKS)
    ended = run(tmp_path, f"-p xdist -p xdist.looponfail -n 2 --dist={dist}")
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"--dist={dist} cannot run the ranks of" in ended.stdout + ended.stderr


def test_what_failed_last_runs_again(tmp_path: Path) -> None:
    (tmp_path / "test_checks.py").write_text(CHECKS, encoding="utf-8")
    run(tmp_path, "")
    run(tmp_path, "--lf")
    checks = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["checks"]
    found = {each["check"].rpartition("::")[2]: each["verdict"] for each in checks}
    assert found == {
        "test_fails": "fail",
        "test_cannot_tell": "undecided",
        "test_flickers": "pass",
        "test_gang_fails": "fail",
    }
