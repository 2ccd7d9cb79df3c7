"""No text made for people decides anything.

Each run is repeated with random words in place of every message, reason, note, headline and fixed
text, in both languages. Verdicts, harm, causes, deviations, news and the exit status stay equal.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.warm_pytest import WarmPytest

SCRAMBLER = '''
import random
import pytest
from pytest_ascendcache import language
from pytest_ascendcache.contract.facts import Fact
from pytest_ascendcache.observation.evidence import Evidence

WORDS = "apple river seven cloud paper stone green music table light".split()
drawn = random.Random(7)


def words(*_, **__):
    return " ".join(drawn.choices(WORDS, k=drawn.randrange(2, 9)))


class Notes(list):
    """Keeps random words in place of what is appended."""

    def append(self, _):
        super().append(words())

    def __iadd__(self, others):
        self.extend(words() for _ in others)
        return self


made = Fact.of.__func__


def scrambled(cls, *arguments, **options):
    if options.get("detail"):
        options["detail"] = words()
    return made(cls, *arguments, **options)


Fact.of = classmethod(scrambled)
start = Evidence.__init__


def begin(self, *arguments, **options):
    start(self, *arguments, **options)
    self.notes, self.readings = Notes(self.notes), Notes(self.readings)


Evidence.__init__ = begin


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    if call.excinfo is not None:
        error = call.excinfo.value
        if isinstance(getattr(error, "msg", None), str):
            error.msg = words()
        error.args = (words(), *error.args[1:])
    return (yield)
'''


SHORT = ("-k", "not lives and not spellings")
"""Without long stories: each kind of verdict is there without them, and the night has them."""
RUNS = {
    "stale": ("--ascend-defect=force-is-enable", "--ascend-rule=cache-mode/force-purges-soc"),
    "two-rules": (
        "--ascend-defect=default-is-enable",
        "--ascend-rule=cache-mode/default-is-disable",
        "--ascend-rule=cache-mode/rejects-unknown-mode",
    ),
    "listed": (
        "--ascend-defect=cann",
        "--ascend-deviations=cann",
        "--ascend-rule=aging/creates-ini",
        "--ascend-rule=impl-mode/type-list",
        *SHORT,
    ),
    "causes": (
        "--ascend-defect=cann",
        "--ascend-rule=aging/creates-ini",
        "--ascend-rule=impl-mode/unsupported",
        "--ascend-rule=robust/read-only-cache",
        *SHORT,
    ),
    "undecided": ("--ascend-defect=serves-once", "--ascend-rule=robust/read-only-cache"),
}
NIGHTLY = {
    "lives": ("--ascend-defect=cann", "--ascend-deviations=cann", "-k", "lives or combinations"),
    "smoke": ("--ascend-select=60runs", "--ascend-defect=key-without-attributes"),
}


def _judged(report: Path) -> dict[str, Any]:
    """What a report says, without any text."""
    document = json.loads(report.read_text("utf-8"))
    keys = ("rule", "check", "verdict", "harm")
    return {
        "checks": [[check[key] for key in keys] for check in document["checks"]],
        "facts": [
            [each["code"] for each in check["evidence"]["facts"]] for check in document["checks"]
        ],
        "deviations": [(each.get("deviation") or {}).get("entry") for each in document["checks"]],
        "causes": [
            [each["verdict"], each["harm"], each["harms"], each["rules"], each["checks"]]
            for each in document["causes"]
        ],
        "totals": document["totals"],
        "news": document.get("baseline"),
    }


def _run(warm: WarmPytest, place: Path, words: tuple[str, ...], name: str) -> tuple[int, Path]:
    always = ("-p", "no:cacheprovider", f"--basetemp={place}/{name}", f"--rootdir={place}")
    report = place / f"{name}.json"
    arguments = (*always, "--ascend-cache", *words, f"--ascend-report={report}")
    output, errors = place / f"{name}.out", place / f"{name}.err"
    return warm.run(arguments, place, output, errors, 600), report


@pytest.mark.parametrize(
    "name", [*RUNS, *(pytest.param(each, marks=pytest.mark.nightly) for each in NIGHTLY)]
)
def test_texts_decide_nothing(
    warm_pytest: WarmPytest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    words = {**RUNS, **NIGHTLY}[name]
    (tmp_path / "scramble.py").write_text(SCRAMBLER)
    monkeypatch.syspath_prepend(tmp_path)
    plain_code, plain = _run(warm_pytest, tmp_path, words, "plain")
    mixed_code, mixed = _run(warm_pytest, tmp_path, ("-p", "scramble", *words), "mixed")
    assert _judged(plain) == _judged(mixed)
    assert plain_code == mixed_code
    assert plain.read_text("utf-8") != mixed.read_text("utf-8")


def test_texts_decide_no_news(
    warm_pytest: WarmPytest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scramble.py").write_text(SCRAMBLER)
    monkeypatch.syspath_prepend(tmp_path)
    _, then = _run(warm_pytest, tmp_path, RUNS["stale"], "then")
    words = ("-p", "scramble", *RUNS["stale"], f"--ascend-baseline={then}")
    code, news = _run(warm_pytest, tmp_path, words, "news")
    assert code == 0
    broken = [each for each in _judged(then)["checks"] if each[2] == "fail"]
    assert _judged(news)["news"]["same"] == len(broken) > 0
