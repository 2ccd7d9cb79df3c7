"""The HTML report: complete, self-contained, safe, small, and interactive in a browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_ascendcache.contract import Verdict, load_rules
from pytest_ascendcache.reports.html_report import html_report
from pytest_ascendcache.reports.json_report import as_json
from tests.sample_reports import Page, failing, matrix_report, page, record, report

RULE = "--ascend-rule=cache-mode/default-is-disable"
NASTY = "</script><img src=x onerror=alert(1)>&amp;'\"`\u2028\udcff"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def test_a_run_writes_a_page_with_all_verdicts_and_rules(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(
        "--ascend-cache", RULE, "--ascend-defect=default-is-enable", "--ascend-html=page.html"
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    shown = page(pytester.path / "page.html")
    assert [each["data-verdict"] for each in shown.having("data-verdict")] == [
        verdict.value for verdict in Verdict
    ]
    assert len(shown.having("data-rule")) == 1
    rule = load_rules()["cache-mode/default-is-disable"]
    assert rule.title_en in shown.text
    assert rule.title_zh in shown.text
    stories = shown.data["stories"].values()
    story = next(each for each in stories if each["observed"] == "compiled, entry stored")
    assert (story["observed"], story["expected"]) == (
        "compiled, entry stored",
        "compiled, entry absent",
    )
    assert "pytest --ascend-cache --ascend-defect=default-is-enable --pyargs" in story["repeat"]
    assert "expected: compiled, entry absent" in story["message"]
    assert story["steps"][-1]["command"].startswith("cd $SANDBOX/")
    assert " added" in story["steps"][-1]["changes"][0]


def test_nothing_is_fetched_from_anywhere() -> None:
    shown = Page(html_report(report(failing())))
    assert [tag for tag, attributes in shown.elements if {"src", "srcset"} & set(attributes)] == []
    # Only readers follow these links, which all lead to public documents.
    public = {rule.source.address for rule in load_rules().values()}
    assert all(each["href"] in ("#rules", *public) for each in shown.having("href"))
    policy = next(each["content"] for each in shown.having("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    text = html_report(report(failing()))
    links = set(re.findall(r"https?://[^\s\"<]+", text)) - {"http://www.w3.org/2000/svg"}
    assert links <= public


def test_what_a_toolchain_says_stays_text() -> None:
    broken = failing(check=f"test_a.py::test_a[{NASTY}]", message=NASTY)
    text = html_report(report(broken, toolchain={"name": NASTY, "version": "1"}))
    shown = Page(text)
    assert "img" not in {tag for tag, _ in shown.elements}
    assert len(shown.scripts) == 2
    assert "</script><img src=x onerror=" in shown.data["stories"]["0"]["message"]
    assert "innerHTML" not in shown.scripts[1]


def test_names_of_files_that_are_no_text_can_be_reported(tmp_path: Path) -> None:
    from pytest_ascendcache.files import write_output
    from pytest_ascendcache.reports.files import read_report

    odd = report(failing(message="file \udcff"))
    write_output(tmp_path / "page.html", html_report(odd))
    write_output(tmp_path / "report.json", as_json(odd))
    (check,) = read_report(tmp_path / "report.json")["checks"]
    assert check["message"] == "file \udcff"


def test_every_check_and_cell_can_be_unpacked_again() -> None:
    document = matrix_report(60)
    data = Page(html_report(document)).data
    factors = [name for name, _ in data["factors"]]
    columns = data["checks"]
    for number, check in enumerate(document["checks"]):
        words = "+".join(data["words"][each] for each in columns["words"][number])
        assert f"{data['tests'][columns['test'][number]]}[{words}]" == check["check"]
        assert data["rules"][columns["rule"][number]]["id"] == check["rule"]
        assert data["verdicts"][columns["verdict"][number]] == check["verdict"]
        levels = data["cells"][columns["cell"][number]]
        cell = {
            name: data["factors"][place][1][int(levels[place], 36)]
            for place, name in enumerate(factors)
        }
        assert cell == check["evidence"]["factors"]


def test_ten_thousand_cells_stay_below_a_megabyte() -> None:
    assert len(html_report(matrix_report(10_000)).encode()) <= 1 << 20


def test_what_an_audit_found_is_told_file_by_file() -> None:
    finding = {"rule": "audit/digests", "path": "a.o", "bytes": 3, "detail": "sha256 is another"}
    broken = record("a", "audit/digests", Verdict.FAIL, "1 fault", findings=[finding], notes=["n"])
    data = Page(html_report(report(broken))).data
    assert data["stories"]["0"]["findings"] == [finding]
    assert data["notes"] == {"0": [["n"]]}


def test_both_languages_have_every_text() -> None:
    strings = Page(html_report(report(record()))).data["strings"]
    for key, texts in strings.items():
        assert set(texts) == {"en", "zh"}, key
        assert all(texts.values()), key


def test_a_page_can_be_made_of_a_report_later(tmp_path: Path) -> None:
    source, target = tmp_path / "report.json", tmp_path / "page.html"
    source.write_text(as_json(report(failing())), encoding="utf-8")
    command = [sys.executable, "-m", "pytest_ascendcache.reports.html_report"]
    subprocess.run([*command, source, target], check=True)
    assert "it is wrong" in page(target).data["stories"]["0"]["message"]


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        ("{", "is not JSON; name a file that --ascend-report wrote"),
        ("[]", "is not a report, and this version reads schema 3"),
        ('{"schema": 1}', "is a report of schema 1, and this version reads schema 3"),
        ('{"schema": 3}', "has no usable 'toolchain'"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, content: str | None, phrase: str) -> None:
    source = tmp_path / "report.json"
    if content is not None:
        source.write_text(content, encoding="utf-8")
    command = [sys.executable, "-m", "pytest_ascendcache.reports.html_report"]
    ended = subprocess.run(
        [*command, source, tmp_path / "page.html"], capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert phrase in ended.stderr
    assert not (tmp_path / "page.html").exists()


def _in_browser(place: Path, script: str) -> str:
    """Return the page's DOM in a browser after ``script`` has run as part of the page."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    text = place.read_text(encoding="utf-8")
    # The page's content security policy would, rightly, block the test's script.
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    driven = place.with_name("driven.html")
    driven.write_text(text.replace("</body>", f"<script>{script}</script></body>"), "utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    profile = place.with_name("profile")
    ended = subprocess.run(
        [*command, f"--user-data-dir={profile}", driven.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    return ended.stdout


def test_the_page_lives_in_a_browser(tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    accuracy = {"operator": "Exp", "mode": "high_precision", "max_ulp": 0.5}
    accuracy |= {"mean_ulp": 0.1, "inputs": 9}
    other = record("test_a.py::test_b", "cache-mode/enable-stores", accuracy=[accuracy])
    place.write_text(html_report(report(failing(), other)), encoding="utf-8")
    shown = Page(
        _in_browser(
            place,
            """
            const rules = all("button.rule"), press = (node, key) =>
              node.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
            one("#quiet-rules").click();
            rules[0].focus();
            press(rules[0], "ArrowDown");
            const moved = document.activeElement === rules[1];
            rules[1].click();
            one("tr.detail details").open = true;
            one("#language").click();
            one("#theme").click();
            setTimeout(() => {
              const facts = { moved, lang: root.lang, theme: root.dataset.theme,
                story: one("tr.detail dl").textContent, hidden: one("#combinations").hidden,
                drawings: all("svg").length, heading: one("h1").innerText,
                kicker: one(".kicker").innerText, causes: all("details.cause").length };
              press(one("tr.detail summary"), "Escape");
              facts.closed = all("tr.detail").length === 0;
              const search = one("#search");
              search.value = "no rule has this";
              search.dispatchEvent(new Event("input"));
              facts.none = !one("#none").hidden;
              document.body.dataset.facts = JSON.stringify(facts);
            }, 0);
            """,
        )
    )
    facts = json.loads(shown.having("data-facts")[0]["data-facts"] or "")
    assert facts["moved"]
    assert facts["lang"] == "zh-Hans"
    assert facts["theme"] in ("dark", "light")
    assert "重新编译，写入缓存" in facts["story"]
    assert facts["hidden"]
    assert facts["drawings"] == 3
    assert facts["heading"].startswith("不可发布")
    assert "昇腾" in facts["kicker"]
    assert facts["causes"] == 1
    assert facts["closed"]
    assert facts["none"]


def test_combinations_are_counted_in_a_browser(tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    document = matrix_report(700)
    place.write_text(html_report(document), encoding="utf-8")
    shown = Page(
        _in_browser(
            place,
            """
            const counts = () => all("#heat td button").map((each) => each.textContent.split("/"))
              .reduce((sum, [bad, of]) => [sum[0] + Number(bad), sum[1] + Number(of)], [0, 0]);
            const whole = counts();
            const filter = one("[data-factor='0']");
            filter.value = "0";
            filter.dispatchEvent(new Event("change"));
            const part = counts();
            one("#heat td button").click();
            const items = all("#field li").length;
            document.body.dataset.facts = JSON.stringify({ whole, part, items });
            """,
        )
    )
    facts = json.loads(shown.having("data-facts")[0]["data-facts"] or "")
    assert facts["whole"] == [14, 700]
    first = document["checks"][0]["evidence"]["factors"]["factor_0"]
    alike = [
        each for each in document["checks"] if each["evidence"]["factors"]["factor_0"] == first
    ]
    assert facts["part"] == [sum(each["verdict"] == "fail" for each in alike), len(alike)]
    assert facts["items"] > 0
