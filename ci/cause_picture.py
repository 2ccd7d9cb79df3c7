"""Writes docs/cause.svg: the first cause of a report as the page shows it, for README.

ci/verify --ascend-defect=key-without-impl-mode --ascend-select=60runs --ascend-report=report.json
.venv/bin/python ci/cause_picture.py report.json
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path
from textwrap import wrap

from pytest_ascendcache.language import Language
from pytest_ascendcache.reports.causes import causes_of
from pytest_ascendcache.reports.files import Document, read_report

_PLACE = Path(__file__).parent.parent / "docs/cause.svg"
_WIDTH, _LEFT, _LINE, _ROWS = 760, 190, 17, 1
_COLOURS = {"compiled": "#e6edf7", "reused": "#e4f3e8", "": "#f4f4f4"}


def cause_picture(report: Document) -> str:
    """The picture of the first cause that has a story of runs."""
    cause = next(each for each in causes_of(report) if each.history is not None)
    assert cause.history is not None
    story = cause.history.as_dict()
    runs, entries = story["runs"], story["entries"]
    room = (_WIDTH - _LEFT - 16) // len(runs)
    lines, y = list[str](), 30

    def say(x: int, text: str, style: str = "", width: int = 96) -> None:
        nonlocal y
        for part in wrap(text, width):
            lines.append(f'<text x="{x}" y="{y}" {style}>{escape(part)}</text>')
            y += _LINE

    say(16, f"{cause.verdict} · {str(cause.harm).replace('-', ' ')}", 'class="bad"')
    say(16, cause.sentence(Language.ENGLISH), 'class="head"', 84)
    top = bottom = y + 8
    for number, run in enumerate(runs):
        y = top + _LINE
        x = _LEFT + number * room
        say(x + 8, f"run {number + 1}", 'class="quiet"')
        for option in run["en"].split():
            say(x + 8, option.replace("=", "= "), 'class="code"', room // 7)
        bottom = max(bottom, y)
    y = bottom
    for row, (name, cells) in enumerate(entries[:_ROWS]):
        say_at = y + _LINE + 4
        lines.append(f'<text x="16" y="{say_at}" class="code">{escape(name)}</text>')
        for number, cell in enumerate(cells):
            x, wrong = _LEFT + number * room, row == 0 and number == len(cells) - 1
            colour = "#fbe3e1" if wrong else _COLOURS[cell["from"]]
            lines.append(
                f'<rect x="{x}" y="{y}" width="{room - 8}" height="58" rx="4" fill="{colour}"/>'
            )
            y += _LINE + 4
            say(x + 8, f"✗ {story['observed']['en']}" if wrong else cell["en"])
            if wrong:
                say(x + 8, f"expected: {story['expected']['en']}", 'class="quiet"')
            y = say_at - _LINE - 4
        y += 66
    body = "\n".join(lines)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" width="{_WIDTH}" height="{y}">
<style>text{{font:13px sans-serif;fill:#222}}.head{{font-weight:bold;font-size:15px}}
.bad{{fill:#b3261e;font-weight:bold}}.quiet{{fill:#666}}.code{{font:12px monospace}}</style>
<rect width="{_WIDTH}" height="{y}" fill="#fff" stroke="#ccc"/>
{body}
</svg>
"""


if __name__ == "__main__":
    _PLACE.write_text(cause_picture(read_report(Path(sys.argv[1]))), encoding="utf-8")
