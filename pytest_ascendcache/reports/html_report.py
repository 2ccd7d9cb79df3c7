"""The HTML report: one file that needs no network, made from the JSON report."""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract import Verdict
from pytest_ascendcache.files import write_output
from pytest_ascendcache.language import Language, glossary, texts, translated
from pytest_ascendcache.reports.answer import answer, counted, judged_by, promising, where
from pytest_ascendcache.reports.cause import Cause
from pytest_ascendcache.reports.causes import causes_of
from pytest_ascendcache.reports.files import Document, ReportFileError, read_report
from pytest_ascendcache.reports.html_data import STORIES, VERDICTS, page_data
from pytest_ascendcache.reports.records import tally

_PAGE = Path(__file__).parent / "page"


def html_report(report: Document) -> str:
    """The page: totals, causes and rules as HTML, everything else drawn from embedded data.

    No text of a report becomes markup: the template escapes it, and the script only sets text. The
    page's content security policy allows this script alone, and loads nothing.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for place, each in enumerate(report["rules"]):
        rule = {**each, "place": place, "source": {**_NO_ADDRESS, **each["source"]}}
        groups.setdefault(rule["source"]["document"], []).append(rule)
    checks: dict[str, list[Verdict]] = {}
    for check in report["checks"]:
        checks.setdefault(check["rule"], []).append(Verdict(check["verdict"]))
    causes = causes_of(report)
    decided = answer(report, causes)
    return render(
        "report.html.j2",
        ("common.js", "charts.js", "report.js"),
        page_data(report),
        report=report,
        groups=groups,
        tallies={rule: tally(verdicts) for rule, verdicts in checks.items()},
        stories=STORIES,
        answer={"kind": decided.kind, **_in_both(decided.sentence)},
        causes=[_cause(each, report) for each in causes],
        glossary=list(zip(*map(glossary, Language), strict=True)),
        editions=_in_both(lambda language: judged_by(report, language)),
    )


def _cause(cause: Cause, report: Document) -> dict[str, Any]:
    """A cause as the template shows it, with its rule as ``of``."""
    rule = promising(cause, report)
    return {
        **cause.as_dict(),
        "of": {"statement_zh": "", **rule, "source": {**_NO_ADDRESS, **rule["source"]}},
        "where": _in_both(lambda language: where(cause, language)),
        "said": _in_both(cause.sentence),
        "to_do": _in_both(cause.next),
        "picture": cause.history.as_dict() if cause.history is not None else None,
    }


_NO_ADDRESS = {"document_zh": "", "address": ""}
"""Fields that reports of earlier versions lack."""


def _in_both(text: Callable[[Language], str]) -> dict[str, str]:
    return {language.value: text(language) for language in Language}


def render(template: str, scripts: tuple[str, ...], data: Any, **context: Any) -> str:
    """A page that contains its style, its scripts and their data."""
    from markupsafe import Markup

    script = "\n".join(_file(name) for name in scripts)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    embedded = {"strings": texts(), **data}
    page: str = (
        _environment()
        .get_template(template)
        .render(
            **context,
            verdicts=VERDICTS,
            style=Markup(_file("page.css")),
            script=Markup(script),
            script_hash=allowed,
            # "<" is the only character that could end the script element around the data.
            data=Markup(json.dumps(embedded, separators=(",", ":")).replace("<", "\\u003c")),
        )
    )
    return page


@lru_cache(maxsize=1)
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_PAGE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.globals["t"] = _both_languages
    environment.filters["chinese"] = lambda sentence: translated(sentence, Language.CHINESE)
    environment.globals["label"] = _label
    environment.globals["tally"] = _tally
    environment.globals["counted"] = _counted
    return environment


def _both_languages(key: str) -> Any:
    """A text of the page in both languages; the style shows the chosen one."""
    return _spans(texts()[key])


def _label(key: str) -> Any:
    """A text of the page as a label, with the colon of its language."""
    text = texts()[key]
    return _spans({"en": f"{text['en']}: ", "zh": f"{text['zh']}："})


def _counted(what: str, count: int) -> Any:
    """``1 check``, ``2 checks`` in both languages."""
    return _spans(_in_both(lambda language: counted(what, count, language)))


def _spans(text: Mapping[str, str]) -> Any:
    from markupsafe import Markup

    return Markup('<span lang="en">{}</span><span lang="zh-Hans">{}</span>').format(
        text["en"], text["zh"]
    )


def _tally(counts: Sequence[tuple[Verdict, int]]) -> Any:
    """The number of checks with the worst verdict, then with others: ``2 (3 pass)``."""
    from markupsafe import Markup

    (_, count), *rest = counts
    if not rest:
        return str(count)
    others = [
        Markup("{} {}").format(number, _both_languages(f"v_{verdict.value}"))
        for verdict, number in rest
    ]
    return Markup("{} ({})").format(count, Markup(", ").join(others))


@lru_cache
def _file(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """``python -m pytest_ascendcache.reports.html_report REPORT.json PAGE.html``."""
    parser = argparse.ArgumentParser(
        prog="python -m pytest_ascendcache.reports.html_report",
        description="Makes the HTML page of a JSON report, such as one that CI has kept.",
    )
    parser.add_argument("report", type=Path, help="a file that --ascend-report wrote")
    parser.add_argument("page", type=Path, help="the page to write")
    options = parser.parse_args(arguments)
    if os.path.realpath(options.page) == os.path.realpath(options.report):
        parser.error(f"{options.page} would replace the report; name another file.")
    try:
        write_output(options.page, html_report(read_report(options.report)))
    except ReportFileError as error:
        parser.error(str(error))
    except OSError as error:
        parser.error(f"{options.page} cannot be written: {error.strerror}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
