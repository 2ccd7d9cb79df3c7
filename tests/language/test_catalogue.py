"""Both languages are complete, and sentences are recognised with any values in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import pytest_ascendcache
from pytest_ascendcache.contract import Capability, Delivered, Fate, Outcome, load_rules
from pytest_ascendcache.contract.harm import Harm
from pytest_ascendcache.contract.options import CacheMode
from pytest_ascendcache.contract.verdict import Verdict
from pytest_ascendcache.language import (
    Language,
    preferred_language,
    templates,
    text,
    texts,
    translated,
)
from pytest_ascendcache.plugin.options.table import OPTIONS, TABLE
from pytest_ascendcache.stress.checker import Kind, Violation
from pytest_ascendcache.stress.history import (
    Compile,
    Disturbance,
    Doing,
    Header,
    JobEnd,
    RankDelivery,
    Round,
    RoundRecord,
    StressHarm,
    StressHistory,
    StressJob,
)
from pytest_ascendcache.stress.narrative import tell

PACKAGE = Path(pytest_ascendcache.__file__).parent
ZH = Language.CHINESE
CHINESE = re.compile("[\u4e00-\u9fff]")
PLACES = re.compile(r"\{(\w*)\}")
NOTHING_TO_SAY = 7
"""A message with fewer letters of fixed text is only a value, such as an operator's name."""


def test_every_fixed_text_has_both_languages_and_the_same_values() -> None:
    for key, both in texts().items():
        assert set(both) == {"en", "zh"}, key
        assert all(both.values()), key
        # "in_rules" counts the other rules in English, and all rules in Chinese.
        if key not in ("in_rules",):
            assert set(PLACES.findall(both["en"])) == set(PLACES.findall(both["zh"])), key


@pytest.mark.parametrize("verdict", Verdict, ids=lambda each: each.name)
def test_every_verdict_has_a_word(verdict: Verdict) -> None:
    assert text(f"v_{verdict.value}", Language.ENGLISH) == verdict.value
    assert CHINESE.search(text(f"v_{verdict.value}", ZH))


@pytest.mark.parametrize("harm", Harm, ids=lambda each: each.name)
def test_every_harm_has_words(harm: Harm) -> None:
    assert CHINESE.search(text(f"harm_{harm.value}", ZH))


def test_every_rule_speaks_chinese() -> None:
    missing = [
        rule.id
        for rule in load_rules().values()
        if not CHINESE.search(rule.title_zh + rule.statement_zh) or not rule.statement_zh
    ]
    assert missing == [], "add statement_zh to these rules"


def test_a_template_and_its_translation_have_as_many_places() -> None:
    for english, chinese in templates().items():
        number = english.count("{}")
        named = PLACES.findall(chinese)
        assert len(named) == number, english
        if any(named):
            assert sorted(map(int, named)) == list(range(number)), english


def _messages(folder: str) -> Iterator[str]:
    """Yield the messages of failed checks and reasons for skips, with {} for values."""
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assert) and node.msg is not None:
                yield from _template(node.msg)
            elif (
                isinstance(node, ast.Call)
                and node.args
                and ast.unparse(node.func) in ("pytest.fail", "pytest.skip", "NotDecidable")
            ):
                yield from _template(node.args[0])


SAID = {"NotDecidable": 0, "Undecided": 0, "HistoryError": 0}
SAID |= dict.fromkeys(("saw", "seen", "found"), 1)
SAID |= dict.fromkeys(("_add", "deviates", "claims"), 2)
"""The calls whose text reaches reports, each with the position of its text argument."""
NOTED = ("notes", "readings")
"""The lists of evidence that reports show."""
ROOMS = ("observation", "faults", "stress", "audit", "conformance", "toolchains")


SENTENCES = ("detail", "problem", "wanted")
"""Variables of audits that contain messages."""


def _said() -> Iterator[str]:
    """Yield the texts about harm, notes, readings, violations, and undecided checks."""
    for path in (each for room in ROOMS for each in sorted((PACKAGE / room).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.AugAssign) and ast.unparse(node.target).endswith(NOTED):
                elements = node.value.elts if isinstance(node.value, ast.List) else ()
                yield from (text for each in elements for text in _template(each))
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            place = SAID.get(called.rpartition(".")[2])
            if called.endswith(tuple(f"{each}.append" for each in NOTED)):
                place = 0
            if place is not None and len(node.args) > place:
                yield from _template(node.args[place])


def _told() -> Iterator[str]:
    """Yield the sentences of facts."""
    for path in sorted((PACKAGE / "conformance").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case (
                    ast.keyword(arg="detail", value=value)
                    | ast.Assign(targets=[ast.Name("detail")], value=value)
                ):
                    yield from _template(value)


def _found() -> Iterator[str]:
    """Yield the messages of audits and the release gate about a file or a setting."""
    for path in (each for room in ("audit", "release") for each in (PACKAGE / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            messages: Sequence[ast.expr | None] = ()
            if isinstance(node, ast.Yield | ast.Return):
                messages = [node.value]
            elif isinstance(node, ast.Assign):
                messages = [node.value] if ast.unparse(node.targets[0]) in SENTENCES else []
            elif isinstance(node, ast.Call):
                takes_message = ast.unparse(node.func).endswith(("Problem", "blame", "add"))
                messages = node.args if takes_message else []
            for each in messages:
                if each is not None:
                    yield from _template(each)


def _helps() -> Iterator[str]:
    """Yield the help texts of the options and their headings."""
    yield from TABLE
    yield from (option.help for option in OPTIONS.values())


def _errors() -> Iterator[str]:
    """Yield the usage errors, with {} for values."""
    for path in sorted((PACKAGE / "plugin").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.UsageError":
                yield from (each for argument in node.args for each in _template(argument))


def _template(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        template = node.value
    elif isinstance(node, ast.JoinedStr):
        template = "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
        )
    else:
        return
    for line in template.split("\n"):
        if not line.startswith(("observed:", "expected:")):
            yield line.strip()


@pytest.mark.parametrize(
    "found",
    [_messages("conformance"), _errors(), _said(), _told(), _helps()],
    ids=["reasons", "usage errors", "harm, notes and undecided", "facts", "help"],
)
def test_every_message_is_in_the_catalogue(found: Iterator[str]) -> None:
    missing = {
        f'"{each}" = ""'
        for each in found
        if len(each.replace("{}", "")) >= NOTHING_TO_SAY and translated(each, ZH) == each
    }
    assert sorted(missing) == [], "translate these in language/sentences/*.toml"


ENGLISH = re.compile(r"(?<![-\w./])[a-z]{2,}(?: [a-z]{2,}){2,}(?![-\w./])", re.ASCII)
"""Three or more English words in a row. Commands and fields are not translated."""


@pytest.mark.parametrize(
    "found",
    [_messages("conformance"), _errors(), _said(), _told(), _helps(), _found()],
    ids=[
        *("reasons", "usage errors", "harm, notes and undecided", "facts", "help"),
        "audits and releases",
    ],
)
def test_no_half_of_a_message_stays_english(found: Iterator[str]) -> None:
    """A short template may match only the beginning of a longer sentence."""
    left = {
        each: told
        for each in found
        if ENGLISH.search(told := translated(each.replace("{}", "⟦9⟧"), ZH))
    }
    assert sorted(left.items()) == [], "translate these whole in language/sentences/*.toml"


@pytest.mark.parametrize("kind", Kind, ids=lambda each: each.name)
def test_every_violation_of_a_stress_run_is_translated(kind: Kind) -> None:
    chinese = translated(str(Violation(kind, 3, "...")), ZH)
    assert re.sub("[^a-z]", "", chinese.replace("kernel", "")) == ""


def test_the_story_of_a_stress_run_is_translated() -> None:
    compiles = (
        Compile(0, (0, 1), CacheMode.ENABLE, limited=True),
        Compile(1, (0,), CacheMode.FORCE),
    )
    disturbances = tuple(Disturbance(each, "shared", 0, "object-empty") for each in StressHarm)
    ended = (
        RankDelivery(1, 0, 0, ("", "")),
        RankDelivery(1, 1, -9, ("",), struck="killed before a write"),
    )
    header = Header(1, 2, ("te_exp_1", "te_add_2"), "reference 1", {}, networks=("net_0",))
    jobs = tuple(StressJob(0, each, 0) for each in Doing)
    one = Round(1, disturbances, compiles, None, jobs, jobs[-1])
    done = tuple(JobEnd(1, number, 0) for number in range(len(jobs)))
    history = StressHistory(header, (RoundRecord(one, ended, ended=done),))
    english = list(tell(history))
    assert [line for line in english if translated(line, ZH) == line] == []


def test_outcomes_are_translated() -> None:
    for delivered in Delivered:
        for fate in Fate:
            assert CHINESE.search(translated(str(Outcome(delivered, fate)), ZH))


@pytest.mark.parametrize("capability", Capability, ids=lambda each: each.name)
def test_what_a_toolchain_lacks_is_translated(capability: Capability) -> None:
    assert CHINESE.search(translated(f"atc 8.5.0: {capability.lacking}", ZH))


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("the cache was touched", "缓存被改动"),
        ("the compile was ended by signal 6: core dumped", "编译被信号 6 终止：core dumped"),
        (
            "with enable --op_debug_config after enable: compiled, entry kept; "
            "expected: reused, entry kept",
            "先 enable、再 enable --op_debug_config 时：重新编译，缓存未变；"
            "预期：命中缓存，缓存未变",
        ),
        (
            "with force: 0 of 10 entries aged, 4 had to; 4 stayed (idle 9 h to 12 h)",
            "force 时：10 份缓存中老化了 0 份，应老化 4 份；4 份未老化（已闲置 9 至 12 小时）",
        ),
        ("Exp(float16[4]): compiled, entry stored", "Exp(float16[4])：重新编译，写入缓存"),
        ("words nobody knows: 1; 2", "words nobody knows: 1; 2"),
        ("", ""),
    ],
)
def test_a_sentence_is_recognised(english: str, chinese: str) -> None:
    assert translated(english, ZH) == chinese
    assert translated(english, Language.ENGLISH) == english


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "C.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "en_US.UTF-8"}, "en"),
        ({"LANG": "de_DE", "LC_MESSAGES": "zh_TW"}, "zh"),
    ],
)
def test_the_locale_says_the_language(environment: dict[str, str], language: str) -> None:
    assert preferred_language(environment).value == language


def test_every_promise_has_words_for_its_breach() -> None:
    families = ("audit", "release")  # what is wrong there is named by path and value
    for rule in load_rules():
        if not rule.startswith(families):
            said = texts()[f"breach_{rule}"]
            assert max(map(len, said.values())) <= 110, rule
            assert not any(each.endswith((".", "。")) for each in said.values()), rule


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("a b/te_add (1).o: its metadata is missing", "a b/te_add (1).o：缺少元数据"),
        (
            "the toolchain ended with exit status 255: E1: a file [f] for [p] is bad. Reason: x",
            "工具链以退出码 255 结束：E1: a file [f] for [p] is bad. Reason: x",
        ),
        (
            "the toolchain ended with exit status 1: x for y: z; expected: a kernel",
            "工具链以退出码 1 结束：x for y: z；预期：a kernel",
        ),
        (
            "/a b/cache serves no kernel of the release: it has 7 of 7 names, and their files are "
            "not taken; it was filled with ops_version=7, and the release compiles with "
            "ops_version=8; expected: kernels for A",
            "/a b/cache 没有为发布件提供任何 kernel：其中有 7 个名称中的 7 个，"
            "但对应的内容未被采用；其填充时为 ops_version=7，而发布件编译时为 ops_version=8；"
            "预期：用于 A 的 kernel",
        ),
        (
            "1 fault in /a b: rank_1/A: 1 of its kernels are not those of card 0, under the same "
            "names: at most one of two is that of a fresh compile",
            "/a b 中有 1 处问题：rank_1/A：有 1 个 kernel 与卡 0 的同名 kernel 不同："
            "两者之中至多一个与重新编译的结果一致",
        ),
        (
            "a conversion from /a has te_exp (sha256 0..., 2 bytes) from the entry te_exp",
            "使用 /a 的转换中，te_exp（sha256 0…，2 字节）来自缓存条目 te_exp",
        ),
        ("what nobody knows under them is kept", "what nobody knows under them is kept"),
    ],
)
def test_paths_with_blanks_and_what_a_program_prints_stay_whole(english: str, chinese: str) -> None:
    assert translated(english, ZH) == chinese
