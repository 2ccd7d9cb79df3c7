"""Known deviations: lists, the faults they cover, and their effect on a run."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.contract.deviations import (
    BrokenPromise,
    Deviation,
    DeviationFileError,
    Judged,
    Occurrence,
    builtin_lists,
    load_deviations,
    occurrences,
)
from pytest_ascendcache.contract.editions import MINDSPORE, default
from pytest_ascendcache.contract.editions import named as edition_named
from pytest_ascendcache.contract.harm import Harm

RULE = "aging/bad-values"
CHECK = "pytest_ascendcache/conformance/cache_mode/test_aging.py::test_bad_values[ratio-0]"


FACTS = ("outcome reused/kept, not compiled/stored", "entry kept, not removed")
NAMED = {
    "rule": RULE,
    "check": "test_bad_values[ratio-0]",
    "observed": ("outcome reused/*", "entry kept, not removed"),
}


def _entry(**changes: object) -> Deviation:
    fields = {"origin": "list, entry 1", "reason": "so", **NAMED, **changes}
    return Deviation(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("entry", "matches"),
    [
        ({}, True),
        ({"rule": "aging/boundaries"}, False),
        ({"check": "test_bad_values[ratio-?]"}, True),
        ({"check": "test_bad_values[*]"}, True),
        ({"check": "test_bad_values[size-*]"}, False),
        ({"check": "test_bad_values"}, False),
        ({"observed": ("outcome reused/kept, not *", "entry *")}, True),
        ({"observed": ("words *", "*, not compiled/stored", "entry kept*")}, True),
        ({"observed": ("outcome reused/*",)}, False),  # the other fact is new
        ({"observed": ("outcome compiled/*", "entry *")}, False),
        ({"observed": ("outcome reused", "entry kept")}, False),
        ({"harm": Harm.MISLEADING}, False),
        ({"harm": Harm.CRASH}, True),
        ({"cell": (("mode", ("force",)),)}, True),
        ({"cell": (("mode", ("enable", "force")), ("list", ("none",)))}, True),
        ({"cell": (("mode", ("enable",)),)}, False),
        ({"cell": (("soc", ("Ascend910B1",)),)}, False),
    ],
)
def test_an_entry_is_about_a_check_and_what_it_observed(
    entry: dict[str, object], matches: bool
) -> None:
    fault = BrokenPromise(RULE, CHECK, {"mode": "force", "list": "none"}, FACTS, Harm.LOST_WORK)
    assert _entry(**entry).matches(fault) is matches


@pytest.mark.parametrize(
    ("harm", "known"),
    [(None, True), (Harm.MISPLACED, True), (Harm.LOST_WORK, True), (Harm.WRONG_RESULT, False)],
)
def test_worse_harm_than_listed_is_a_new_fault(harm: Harm | None, known: bool) -> None:
    assert _entry().matches(BrokenPromise(RULE, CHECK, {}, FACTS, harm)) is known


@pytest.mark.parametrize(
    ("judged", "occurrence"),
    [
        ([], Occurrence.NOTHING),
        ([(Verdict.PASS, ""), (Verdict.KNOWN_DEVIATION, "list, entry 1")], Occurrence.OCCURS),
        (
            [(Verdict.UNDECIDED, ""), (Verdict.KNOWN_DEVIATION, "list, entry 1")],
            Occurrence.OCCURS,
        ),
        ([(Verdict.KNOWN_DEVIATION, "list, entry 2")], Occurrence.GONE),
        ([(Verdict.FAIL, "")], Occurrence.GONE),
        ([(Verdict.PASS, ""), (Verdict.NOT_APPLICABLE, "")], Occurrence.GONE),
        ([(Verdict.PASS, ""), (Verdict.UNDECIDED, "")], Occurrence.UNDECIDED),
        ([(Verdict.NOT_APPLICABLE, "")], Occurrence.UNDECIDED),
    ],
)
def test_what_became_of_an_entry(judged: list[tuple[Verdict, str]], occurrence: Occurrence) -> None:
    judgements = [Judged(RULE, CHECK, {}, verdict, origin) for verdict, origin in judged]
    other = Judged("debug/outputs", CHECK, {}, Verdict.PASS)
    assert occurrences([_entry()], [*judgements, other]) == [(_entry(), occurrence)]


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.FAIL])
def test_an_entry_that_shows_in_some_runs_only_may_be_absent(verdict: Verdict) -> None:
    entry = _entry(sometimes=True)
    absent, shown = (Judged(RULE, CHECK, {}, verdict, origin) for origin in ("", "list, entry 1"))
    assert occurrences([entry], [absent]) == [(entry, Occurrence.UNDECIDED)]
    assert occurrences([entry], [absent, shown]) == [(entry, Occurrence.OCCURS)]
    assert occurrences([entry], []) == [(entry, Occurrence.NOTHING)]


def test_a_fault_without_a_fact_is_known_to_nobody() -> None:
    assert not _entry(observed=("*",)).matches(BrokenPromise(RULE, CHECK, {}, ()))


def test_an_entry_is_of_the_editions_it_names(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(ENTRY + 'edition = ["8.0", "9.0"]\n' + ENTRY)
    some, every = load_deviations(str(path))
    judged_by = {name: (edition_named(name), default(MINDSPORE)) for name in ("9.0", "9.1")}
    assert {name: some.is_by(each) for name, each in judged_by.items()} == {
        "9.0": True,
        "9.1": False,
    }
    assert all(every.is_by(each) for each in judged_by.values())


def test_a_list_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(
        '[[deviation]]\nrule = "debug/outputs"\ncheck = "test_x[*]"\nobserved = "claim nothing*"\n'
        'harm = "crash"\nreason = "T3"\nlink = "https://example.org/1"\n'
        '[deviation.combination]\nmode = "force"\nlist = ["by-type", "by-name"]\n'
    )
    assert load_deviations(str(path)) == (
        Deviation(
            origin=f"{path}, entry 1",
            rule="debug/outputs",
            reason="T3",
            check="test_x[*]",
            observed=("claim nothing*",),
            harm=Harm.CRASH,
            cell=(("mode", ("force",)), ("list", ("by-type", "by-name"))),
            link="https://example.org/1",
        ),
    )


REST = 'check = "test_x"\nobserved = "outcome reused*"\nreason = "so"\n'
ENTRY = '[[deviation]]\nrule = "debug/outputs"\n' + REST
TYPOS = {
    "syntax": ('[[deviation]]\nrule = debug"\n', "ours.toml is not TOML: .*line 2"),
    "unknown-key": (ENTRY + 'raeson = "so"\n', r"entry 1 .*the key 'raeson' is unknown; .*reason"),
    "no-reason": (ENTRY.replace('reason = "so"', ""), "entry 1 .*'reason' is missing"),
    "empty-reason": (ENTRY.replace('"so"', '" "'), "'reason' is ' '; write"),
    "no-check": (ENTRY.replace('check = "test_x"', ""), "entry 1 .*'check' is missing"),
    "any-check": (ENTRY.replace("test_x", "*"), r"'check' is '\*'; name one check"),
    "many-checks": (ENTRY.replace("test_x", "test_*[a]"), r"'check' is 'test_\*\[a\]'; name one"),
    "nothing-observed": (
        ENTRY.replace('"outcome reused*"', '"*"'),
        r"'observed' is '\*'; write the",
    ),
    "observed-a-number": (
        ENTRY.replace('"outcome reused*"', "[1]"),
        r"'observed' is \[1\]; write the",
    ),
    "observed-a-sentence": (
        ENTRY.replace("outcome reused*", "the kernel was reused"),
        "'the kernel was reused', which is no code of a fact; take the code from evidence.facts",
    ),
    "no-observed": (ENTRY.replace('observed = "outcome reused*"', ""), "'observed' is missing"),
    "sometimes-a-text": (
        ENTRY + 'sometimes = "yes"\n',
        "'sometimes' is 'yes'; write true or false",
    ),
    "no-such-harm": (ENTRY + 'harm = "bad"\n', "'harm' is 'bad'; use one of wrong-result, out"),
    "no-rule": (ENTRY + '[[deviation]]\nreason = "so"\n', "entry 2: 'rule' is missing"),
    "rule-a-number": (f"[[deviation]]\nrule = 1\n{REST}", "entry 1: 'rule' is 1; write"),
    "many-rules": (
        f'[[deviation]]\nrule = "debug/*"\n{REST}',
        r"entry 1 \(rule 'debug/\*'\): there is no such rule; name one rule",
    ),
    "table": ('[[deviations]]\nrule = "debug/*"\n', "'deviations' is unknown"),
    "one-table": ('[deviation]\nrule = "debug/*"\n', "'deviation' is not a list"),
    "cell-a-text": (ENTRY + 'combination = "force"\n', "'combination' is 'force'; write a table"),
    "factor-a-number": (
        ENTRY + "combination = {debug_level = 0}\n",
        "the factor 'debug_level' is 0",
    ),
    "factor-without-value": (ENTRY + "combination = {mode = []}\n", r"the factor 'mode' is \[\]"),
    "no-such-edition": (ENTRY + 'edition = "9.9"\n', "there is no edition '9.9'; use one of 5.0, "),
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
        (
            "cnan",
            "'cnan' is neither a built-in list (cann, cann-8.1, mindspore-2.10.0, "
            "torchair-2.14.0) nor a file",
        ),
        ("missing.toml", "missing.toml cannot be read (No such file or directory)"),
        (".", ". cannot be read (Is a directory)"),
    ],
)
def test_a_list_that_is_not_there(name: str, words: str) -> None:
    with pytest.raises(DeviationFileError, match=re.escape(words)):
        load_deviations(name)


LISTS = (*builtin_lists(), str(Path(__file__).parents[2] / "ci/cann/known.toml"))
ENTRIES = [entry for name in LISTS for entry in load_deviations(name)]
NEW = (
    "files touched, not untouched #2",
    "kernel old-output, not own",
    "outcome reused/removed, not compiled/stored",
    "claim something_else",
)
"""Facts that no list covers."""


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda each: each.origin)
def test_an_entry_of_a_list_knows_its_fault_and_no_new_one(entry: Deviation) -> None:
    """For one check of one rule, the observation and the harm decide whether the entry matches."""
    cell = {factor: values[0] for factor, values in entry.cell}
    check = f"test_any.py::{entry.check.replace('*', 'any').replace('?', 'x')}"

    def knows(fact: str, harm: Harm | None) -> bool:
        return entry.matches(BrokenPromise(entry.rule, check, cell, (fact,), harm))

    known = [each.replace("*", " any ").replace("?", "x") for each in entry.observed]
    assert all(knows(each, entry.harm) for each in known)
    assert not any(
        knows(each, harm) for each in known for harm in Harm if harm.rank < entry.harm.rank
    )
    assert [each for each in NEW if knows(each, entry.harm)] == []


def test_every_entry_of_cann_has_its_number() -> None:
    assert builtin_lists() == ["cann", "cann-8.1", "mindspore-2.10.0", "torchair-2.14.0"]
    assert all(re.match(r"T\d+(, T\d+)*: ", entry.reason) for entry in load_deviations("cann"))


# --- in a run -------------------------------------------------------------------------------


PROFILE = ("--ascend-defect=cann", "--ascend-rule=aging/creates-ini")


def _run(suite: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return suite.runpytest_subprocess("--ascend-cache", *arguments)


def _verdicts(path: Path) -> dict[str, str]:
    return {each["check"]: each["verdict"] for each in json.loads(path.read_text())["checks"]}


def test_a_list_gives_exactly_what_breaks_its_reason(suite: pytest.Pytester) -> None:
    plain, listed = suite.path / "plain.json", suite.path / "listed.json"
    bare = _run(suite, *PROFILE, f"--ascend-report={plain}")
    bare.stdout.fnmatch_lines(
        ["*with the defects of 'cann'*", "fail 3 (3 pass)*aging/creates-ini*"]
    )
    assert bare.ret == pytest.ExitCode.TESTS_FAILED
    green = _run(
        suite, *PROFILE, "--ascend-deviations=cann", f"--ascend-report={listed}", "--junitxml=j.xml"
    )
    assert green.ret == 0
    green.stdout.fnmatch_lines(
        [
            "*known deviation 3 (3 pass)*aging/creates-ini*",
            "*known deviations*",
            "aging/creates-ini, 3 checks: T5: op_cache.ini is created in kernel_cache/*",
            "1 rule: 0 pass, 0 fail, 0 warn, 1 known deviation, 0 not applicable, 0 undecided",
        ]
    )
    # A run of only a part of the suite does not report deviations that no longer occur.
    assert "listed deviations that did not occur" not in green.stdout.str()
    instead = {"fail": "known deviation"}
    assert _verdicts(listed) == {
        check: instead.get(verdict, verdict) for check, verdict in _verdicts(plain).items()
    }
    (record, *_) = json.loads(listed.read_text())["checks"]
    assert record["deviation"]["instead"] == "fail"
    assert record["message"]
    properties = ElementTree.parse(suite.path / "j.xml").iter("property")
    verdicts = [each.get("value") for each in properties if each.get("name") == "verdict"]
    assert sorted(verdicts) == ["known deviation"] * 3 + ["pass"] * 3


def test_a_list_does_not_hide_other_rules_or_checks(suite: pytest.Pytester) -> None:
    (suite.path / "ours.toml").write_text(
        '[[deviation]]\nrule = "aging/creates-ini"\nobserved = "files misplaced, not untouched"\n'
        'reason = "so"\n'
        'check = "test_a_run_creates_the_file_where_the_document_says[force]"\n'
        'link = "https://example.org/1"\n'
    )
    result = _run(suite, *PROFILE, "--ascend-deviations=ours.toml", "-n", "2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "aging/creates-ini, 1 check: so (https://example.org/1)",
            f"repeat * --ascend-defect=cann --ascend-deviations={suite.path}/ours.toml *",
            "6 checks: 3 pass, 2 fail, 0 warn, 1 known deviation, *",
        ]
    )


MINE = """
    import pytest

    @pytest.mark.ascend_rule("debug/outputs")
    @pytest.mark.parametrize("factor", ["damaged", "valid"])
    def test_mine(ascend_evidence, factor):
        ascend_evidence.factors["before"] = factor
        ascend_evidence.starts += 1  # a run without any start judges nothing
        assert factor == "valid"
"""
LIST = """
[[deviation]]
rule = "debug/outputs"
check = "test_mine[*]"
observed = ["claim factor == 'valid'"]
combination = {before = ["damaged", "half-object"]}
reason = "this one is known"

[[deviation]]
rule = "debug/outputs"
check = "test_mine[*]"
observed = ["claim factor == 'valid'"]
combination = {before = "valid"}
reason = "this one was mended"

[[deviation]]
rule = "debug/outputs"
check = "test_nobody"
observed = "claim anything"
reason = "this one was renamed"
"""


WHOLE = ("--ascend-select=whole", "test_mine.py", "--pyargs", "pytest_ascendcache.conformance")


@pytest.fixture
def whole(suite: pytest.Pytester) -> pytest.Pytester:
    """Runs the whole suite quickly: each of its files has one check, which is skipped."""
    # This is a plugin, because the hooks of a conftest.py see only items of its directory.
    suite.makepyfile(
        at_rest="""
        import pytest

        FIRST = {}

        @pytest.hookimpl(tryfirst=True)
        def pytest_pycollect_makeitem(collector, name):
            is_check = "conformance" in collector.path.parts and name.startswith("test_")
            return [] if is_check and FIRST.setdefault(collector.path, name) != name else None

        def pytest_runtest_setup(item):
            if "test_mine" not in item.nodeid:
                pytest.skip("not asked")
        """
    )
    suite.makeini("[pytest]\naddopts = -p no:cacheprovider -p at_rest\n")
    suite.makepyfile(test_mine=MINE)
    (suite.path / "ours.toml").write_text(LIST)
    return suite


@pytest.mark.parametrize(
    "workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.nightly)], ids=["alone", "xdist"]
)
def test_a_whole_run_says_what_a_list_need_not_say(
    whole: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    result = _run(
        whole, *WHOLE, "--ascend-deviations=ours.toml", "--ascend-report=r.json", *workers
    )
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "debug/outputs, 1 check: this one is known",
            "*listed deviations that did not occur*",
            "no longer occurs: *ours.toml, entry 2: *test_mine[[][*]] before=valid*",
            "*this one was mended*",
            "matches nothing: *ours.toml, entry 3: *test_nobody*",
            "*this one was renamed*",
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
    result = _run(whole, *WHOLE, "--ascend-deviations=ours.toml", "--ascend-strict")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (whole.path / "ours.toml").write_text(LIST.split("\n\n")[0])
    assert _run(whole, *WHOLE, "--ascend-deviations=ours.toml", "--ascend-strict").ret == 0


@pytest.mark.parametrize(
    "part",
    [("-k", "test_mine"), pytest.param(("-k", "test_mine", "-n", "2"), marks=pytest.mark.nightly)],
)
def test_a_part_of_the_suite_says_less(whole: pytest.Pytester, part: tuple[str, ...]) -> None:
    result = _run(whole, *WHOLE, "--ascend-deviations=ours.toml", "--ascend-strict", *part)
    assert result.ret == 0
    assert "listed deviations that did not occur" not in result.stdout.str()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--ascend-deviations=ours.toml"],
            "ours.toml, entry 1 (rule 'debug/outputs'): the key 'why'",
        ),
        (
            ["--ascend-deviations=nobody"],
            "/nobody' is neither a built-in list (cann, cann-8.1, mindspore-2.10.0, "
            "torchair-2.14.0) nor a file",
        ),
        (
            ["--ascend-deviations=cells.toml"],
            "cells.toml, entry 1: 'cache' is no factor; use cache_mode, debug_level",
        ),
    ],
)
def test_bad_options_end_the_run_before_it_begins(
    suite: pytest.Pytester, arguments: list[str], words: str
) -> None:
    (suite.path / "ours.toml").write_text(ENTRY + 'why = "so"\n')
    cell = (
        ENTRY.replace("debug/outputs", "combinations/outcome") + 'combination = {cache = "off"}\n'
    )
    (suite.path / "cells.toml").write_text(cell)
    result = _run(suite, *arguments, "--ascend-report=r.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *{words.replace('[', '[[]')}*"])
    assert not (suite.path / "r.json").exists()


def test_a_new_fault_of_a_listed_check_fails(suite: pytest.Pytester) -> None:
    """CANN's list covers a damaged entry that stays, but not a damaged kernel that is reused."""
    check = (
        "pytest_ascendcache.conformance.robustness.test_robust"
        "::test_an_entry_as_it_was_written_heals[object-code-flipped]"
    )
    arguments = ("--ascend-deviations=cann", "--ascend-report=r.json", "--pyargs", check)
    listed = _run(suite, "--ascend-defect=damaged-entries-stay", *arguments)
    assert listed.ret == 0
    assert _verdicts(suite.path / "r.json").popitem()[1] == "known deviation"
    new = _run(suite, "--ascend-defect=digest-unchecked", *arguments)
    assert new.ret == pytest.ExitCode.TESTS_FAILED
    (record,) = json.loads((suite.path / "r.json").read_text())["checks"]
    assert (record["verdict"], record["harm"]) == ("fail", "wrong-result")
