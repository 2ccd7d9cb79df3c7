"""Known deviations: lists, what they match, and what a run makes of them."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.contract.deviations import (
    Deviation,
    DeviationFileError,
    Judged,
    Occurrence,
    builtin_lists,
    load_deviations,
    occurrences,
)

RULE = "aging/bad-values"
CHECK = "pytest_ascendcache/conformance/cache_mode/test_aging.py::test_bad_values[ratio-0]"


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ({"rule": RULE}, True),
        ({"rule": "aging/*"}, True),
        ({"rule": "AGING/*"}, False),
        ({"rule": "debug/*"}, False),
        ({"rule": RULE, "check": "test_bad_values*[ratio-*]"}, True),
        ({"rule": RULE, "check": "test_bad_values[ratio-?]"}, True),
        ({"rule": RULE, "check": "test_bad_values[size-*]"}, False),
        ({"rule": RULE, "check": "test_bad_values"}, False),
        ({"rule": RULE, "cell": (("mode", ("force",)),)}, True),
        ({"rule": RULE, "cell": (("mode", ("enable", "force")), ("list", ("none",)))}, True),
        ({"rule": RULE, "cell": (("mode", ("enable",)),)}, False),
        ({"rule": RULE, "cell": (("soc", ("Ascend910B1",)),)}, False),
    ],
)
def test_what_an_entry_names(entry: dict[str, object], named: bool) -> None:
    deviation = Deviation(origin="list, entry 1", reason="so", **entry)  # type: ignore[arg-type]
    assert deviation.names(RULE, CHECK, {"mode": "force", "list": "none"}) is named


@pytest.mark.parametrize(
    ("verdicts", "occurrence"),
    [
        ([], Occurrence.NOTHING),
        ([Verdict.PASS, Verdict.KNOWN_DEVIATION], Occurrence.OCCURS),
        ([Verdict.UNDECIDED, Verdict.KNOWN_DEVIATION], Occurrence.OCCURS),
        ([Verdict.PASS, Verdict.NOT_APPLICABLE], Occurrence.GONE),
        ([Verdict.PASS, Verdict.UNDECIDED], Occurrence.UNDECIDED),
        ([Verdict.NOT_APPLICABLE], Occurrence.UNDECIDED),
    ],
)
def test_what_became_of_an_entry(verdicts: list[Verdict], occurrence: Occurrence) -> None:
    entry = Deviation("list, entry 1", RULE, "so")
    judged = [Judged(RULE, CHECK, {}, verdict) for verdict in verdicts]
    other = Judged("debug/outputs", CHECK, {}, Verdict.PASS)
    assert occurrences([entry], [*judged, other]) == [(entry, occurrence)]


def test_a_list_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(
        '[[deviation]]\nrule = "debug/*"\nreason = "T3"\nlink = "https://example.org/1"\n'
        '[deviation.cell]\nmode = "force"\nlist = ["by-type", "by-name"]\n'
    )
    assert load_deviations(str(path)) == (
        Deviation(
            origin=f"{path}, entry 1",
            rule="debug/*",
            reason="T3",
            cell=(("mode", ("force",)), ("list", ("by-type", "by-name"))),
            link="https://example.org/1",
        ),
    )


ENTRY = '[[deviation]]\nrule = "debug/*"\nreason = "so"\n'
TYPOS = {
    "syntax": ('[[deviation]]\nrule = debug"\n', "ours.toml is not TOML: .*line 2"),
    "unknown-key": (ENTRY + 'raeson = "so"\n', r"entry 1 .*the key 'raeson' is unknown; .*reason"),
    "no-reason": ('[[deviation]]\nrule = "debug/*"\n', "entry 1 .*'reason' is missing"),
    "empty-reason": ('[[deviation]]\nrule = "debug/*"\nreason = " "\n', "'reason' is ' '; write"),
    "no-rule": (ENTRY + '[[deviation]]\nreason = "so"\n', "entry 2: 'rule' is missing"),
    "rule-a-number": ('[[deviation]]\nrule = 1\nreason = "so"\n', "entry 1: 'rule' is 1; write"),
    "no-such-rule": (
        '[[deviation]]\nrule = "debgu/*"\nreason = "so"\n',
        r"entry 1 \(rule 'debgu/\*'\): no rule is called so",
    ),
    "table": ('[[deviations]]\nrule = "debug/*"\n', "'deviations' is unknown"),
    "one-table": ('[deviation]\nrule = "debug/*"\n', "'deviation' is no list"),
    "cell-a-text": (ENTRY + 'cell = "force"\n', "'cell' is 'force'; write a table"),
    "factor-a-number": (ENTRY + "cell = {debug_level = 0}\n", "the factor 'debug_level' is 0"),
    "factor-without-value": (ENTRY + "cell = {mode = []}\n", r"the factor 'mode' is \[\]"),
    "not-text": (b"\xff\xfe\x00", "ours.toml is not TOML"),
}


@pytest.mark.parametrize("typo", TYPOS)
def test_a_typo_is_told_in_one_sentence(tmp_path: Path, typo: str) -> None:
    text, words = TYPOS[typo]
    path = tmp_path / "ours.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(DeviationFileError) as caught:
        load_deviations(str(path))
    assert re.search(words, str(caught.value))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cnan", "'cnan' is neither a built-in list (cann, cann-8.1, mindspore-2.10.0, "),
        ("missing.toml", "missing.toml cannot be read (No such file or directory)"),
        (".", ". cannot be read (Is a directory)"),
    ],
)
def test_a_list_that_is_not_there(name: str, words: str) -> None:
    with pytest.raises(DeviationFileError, match=re.escape(words)):
        load_deviations(name)


def test_every_entry_of_cann_has_its_number() -> None:
    assert builtin_lists() == ["cann", "cann-8.1", "mindspore-2.10.0", "torchair-2.14.0"]
    assert all(re.match(r"T\d+(, T\d+)*: ", entry.reason) for entry in load_deviations("cann"))


# --- in a run -------------------------------------------------------------------------------


PROFILE = ("--ascend-profile=cann", "--ascend-rule=aging/creates-ini")


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A directory without tests; options are given by each test."""
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider\n")
    return pytester


def _run(suite: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return suite.runpytest_subprocess("--ascend-cache", *arguments)


def _verdicts(path: Path) -> dict[str, str]:
    return {each["check"]: each["verdict"] for each in json.loads(path.read_text())["checks"]}


def test_a_list_gives_exactly_what_breaks_its_reason(suite: pytest.Pytester) -> None:
    plain, listed = suite.path / "plain.json", suite.path / "listed.json"
    bare = _run(suite, *PROFILE, f"--ascend-report={plain}")
    bare.stdout.fnmatch_lines(["*with profile 'cann'*", "* fail 2 (3 pass)*aging/creates-ini*"])
    assert bare.ret == pytest.ExitCode.TESTS_FAILED
    green = _run(
        suite, *PROFILE, "--ascend-deviations=cann", f"--ascend-report={listed}", "--junitxml=j.xml"
    )
    assert green.ret == 0
    green.stdout.fnmatch_lines(
        [
            "*known deviation 2 (3 pass)*aging/creates-ini*",
            "1 rules: 0 pass, 0 fail, 0 warn, 1 known deviation, 0 not applicable, 0 undecided",
            "*known deviations*",
            "aging/creates-ini, 2 checks: T5: op_cache.ini is created in kernel_cache/*",
        ]
    )
    # Of a part of the suite it is not said what no longer occurs.
    assert "listed deviations that are none" not in green.stdout.str()
    instead = {"fail": "known deviation"}
    assert _verdicts(listed) == {
        check: instead.get(verdict, verdict) for check, verdict in _verdicts(plain).items()
    }
    (record, *_) = json.loads(listed.read_text())["checks"]
    assert record["deviation"]["instead"] == "fail"
    assert record["message"]
    properties = ElementTree.parse(suite.path / "j.xml").iter("property")
    verdicts = [each.get("value") for each in properties if each.get("name") == "verdict"]
    assert sorted(verdicts) == ["known deviation"] * 2 + ["pass"] * 3


def test_a_list_does_not_hide_other_rules_or_checks(suite: pytest.Pytester) -> None:
    (suite.path / "ours.toml").write_text(
        '[[deviation]]\nrule = "aging/creates-ini"\ncheck = "*[force]"\nreason = "so"\n'
        'link = "https://example.org/1"\n'
    )
    result = _run(suite, *PROFILE, "--ascend-deviations=ours.toml", "-n", "2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "5 checks: 3 pass, 1 fail, 0 warn, 1 known deviation, *",
            "aging/creates-ini, 1 check: so (https://example.org/1)",
            f"repeat * --ascend-profile=cann --ascend-deviations={suite.path}/ours.toml *",
        ]
    )


MINE = """
    import pytest

    @pytest.mark.ascend_rule("debug/outputs")
    @pytest.mark.parametrize("factor", ["damaged", "valid"])
    def test_mine(ascend_evidence, factor):
        ascend_evidence.factors["before"] = factor
        assert factor == "valid"
"""
LIST = """
[[deviation]]
rule = "debug/outputs"
check = "test_mine*"
cell = {before = ["damaged", "half-object"]}
reason = "this one is known"

[[deviation]]
rule = "debug/outputs"
check = "test_mine*"
cell = {before = "valid"}
reason = "this one was mended"

[[deviation]]
rule = "debug/*"
check = "test_nobody"
reason = "this one was renamed"
"""


@pytest.fixture
def whole(suite: pytest.Pytester) -> pytest.Pytester:
    """Runs of the whole suite that take no time: its own checks are skipped."""
    # A plugin, for the hooks of a conftest.py see items of its own directory only.
    suite.makepyfile(
        at_rest="""
        import pytest

        def pytest_runtest_setup(item):
            if "test_mine" not in item.nodeid:
                pytest.skip("not asked")
        """
    )
    suite.makeini("[pytest]\naddopts = -p no:cacheprovider -p at_rest\n")
    suite.makepyfile(test_mine=MINE)
    (suite.path / "ours.toml").write_text(LIST)
    return suite


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_whole_run_says_what_a_list_need_not_say(
    whole: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    result = _run(whole, "--ascend-deviations=ours.toml", "--ascend-report=r.json", *workers)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "debug/outputs, 1 check: this one is known",
            "*listed deviations that are none*",
            "no longer occurs: ours.toml, entry 2: debug/outputs test_mine[*] before=valid",
            "matches nothing: ours.toml, entry 3: debug/[*] test_nobody",
        ]
    )
    entries = json.loads((whole.path / "r.json").read_text())["deviations"]
    occurred = [(each["reason"], each["occurrence"]) for each in entries]
    assert occurred == [
        ("this one is known", "occurs"),
        ("this one was mended", "no longer occurs"),
        ("this one was renamed", "matches nothing"),
    ]


def test_under_strict_such_an_entry_fails_the_run(whole: pytest.Pytester) -> None:
    result = _run(whole, "--ascend-deviations=ours.toml", "--ascend-strict")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (whole.path / "ours.toml").write_text(LIST.split("\n\n")[0])
    assert _run(whole, "--ascend-deviations=ours.toml", "--ascend-strict").ret == 0


@pytest.mark.parametrize("part", [("-k", "test_mine"), ("-k", "test_mine", "-n", "2")])
def test_a_part_of_the_suite_says_less(whole: pytest.Pytester, part: tuple[str, ...]) -> None:
    result = _run(whole, "--ascend-deviations=ours.toml", "--ascend-strict", *part)
    assert result.ret == 0
    assert "listed deviations that are none" not in result.stdout.str()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--ascend-deviations=ours.toml"], "ours.toml, entry 1 (rule 'debug/*'): the key 'why'"),
        (
            ["--ascend-deviations=nobody"],
            "/nobody' is neither a built-in list (cann, cann-8.1, *) nor a file",
        ),
        (
            ["--ascend-deviations=cells.toml"],
            "cells.toml, entry 1: 'cache' is no factor; use cache_mode, debug_level",
        ),
        (["--ascend-profile=nobody"], "--ascend-profile=nobody: no such profile; use cann."),
        (["--ascend-profile=cann", "--ascend-defect=never-ages"], "leave one of the two out"),
        (["--ascend-profile=cann", "--ascend-toolchain=atc"], "leave one of the two out"),
    ],
)
def test_bad_options_end_the_run_before_it_begins(
    suite: pytest.Pytester, arguments: list[str], words: str
) -> None:
    (suite.path / "ours.toml").write_text('[[deviation]]\nrule = "debug/*"\nwhy = "so"\n')
    cell = '[[deviation]]\nrule = "combinations/*"\nreason = "so"\ncell = {cache = "off"}\n'
    (suite.path / "cells.toml").write_text(cell)
    result = _run(suite, *arguments, "--ascend-report=r.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *{words.replace('[', '[[]')}*"])
    assert not (suite.path / "r.json").exists()
