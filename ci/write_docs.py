"""Writes the generated pages of docs/, and the table of budgets in docs/atc.md.

It also refuses a page that has changed in one language only (language_pairs.py)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from api_reference import api_reference
from budgets import budget_table
from language_pairs import unlike
from rule_reference import rule_reference
from upgrade_page import upgrade_page

from pytest_ascendcache.language import Language, glossary, translated
from pytest_ascendcache.plugin.options.table import SETTINGS_OF_INI, TABLE
from pytest_ascendcache.qualification.loading import load_defects, load_scenes

_DOCS = Path(__file__).parent.parent / "docs"
_HEAD = """\
# Options

All of pytest's own (`-n 4`, `-k`, `-x`, `--lf`, `--collect-only`, `--junitxml`) work as usual.
Only the suite: `pytest --ascend-cache --pyargs pytest_ascendcache.conformance`.

An option with an ini key can be fixed by a project, in `pyproject.toml`
(`[tool.pytest.ini_options]`), `pytest.ini` or `tox.ini`: `ascend_toolchain = "atc"`. Paths there
start from the directory of that file; the command line comes first. An ini key says how the suite
judges, never that it runs.

An empty value is a usage error, and so is an unknown key that begins with `ascend_`.
This page is made from the table of options by `ci/docs`.
"""
_HEAD_ZH = """\
# 选项

pytest 自身的选项（`-n 4`、`-k`、`-x`、`--lf`、`--collect-only`、`--junitxml`）照常可用。
只执行套件：`pytest --ascend-cache --pyargs pytest_ascendcache.conformance`。

带 ini 键的选项可以由项目固定在 `pyproject.toml`（`[tool.pytest.ini_options]`）、`pytest.ini` 或
`tox.ini` 中：`ascend_toolchain = "atc"`。其中的相对路径以该文件所在目录为准；命令行优先。
ini 键只决定如何判定，不会使套件运行。

空值是用法错误，以 `ascend_` 开头的未知键也是。本页由 `ci/docs` 根据选项表生成。
"""

_ONLY_INI = "only in the ini file, or -o KEY=VALUE"


def option_reference(language: Language) -> str:
    """Return docs/options.md: every option with its help and ini key, ordered as in ``--help``."""

    def say(sentence: str) -> str:
        return translated(sentence, language)

    chinese = language is Language.CHINESE
    parts = [_HEAD_ZH if chinese else _HEAD]
    for heading, options in (TABLE | {_ONLY_INI: SETTINGS_OF_INI.values()}).items():
        title = say(heading) if chinese else heading.capitalize()
        parts.append(f"\n## {title}\n\n| {say('option')} | {say('meaning')} |\n|---|---|\n")
        for option in options:
            note = f" [ini: {option.key}]" if option.ini else ""
            cells = (f"`{option.usage}`", option.description(say) + note)
            escaped = (cell.replace("|", "\\|") for cell in cells)
            parts.append(f"| {' | '.join(escaped)} |\n")
    return "".join(parts)


_WORDS = {
    Language.ENGLISH: "# Words\n\nThe words of messages, reports and guides. "
    "`pytest --ascend-words` prints them.\n\n| word | meaning |\n|---|---|\n",
    Language.CHINESE: "# 用语\n\n提示、报告和指南中的用语。`pytest --ascend-words` 也会显示。\n\n"
    "| 用语 | 含义 |\n|---|---|\n",
}


def words_page(language: Language) -> str:
    """Return docs/words.md: every word that a user meets and may not know."""
    lines = (f"| **{each.word}** | {each.meaning} |\n" for each in glossary(language))
    return _WORDS[language] + "".join(lines)


_LINE = """\
# Where the line runs

What a toolchain may do in its own way, and the nearest thing that it may not. Each line is two
changes of the embedded reference, or two directories or releases as users have them:
`ci/qualify --innocents` demands that no rule notices the first, `ci/qualify` that the rules named
notice the second. The sentence is the one that leaves the freedom. Made by `ci/docs`.

| free | the sentence that leaves it | not free | noticed by |
|---|---|---|---|
"""


def innocents_page() -> str:
    """Return docs/innocents.md: every innocent with its freedom and its twin."""
    lines = []
    for known, each in [
        (of, each) for of in (load_defects(), load_scenes()) for each in of.values()
    ]:
        if each.freedom:
            twin = known[each.twin]
            rules = ", ".join(f"`{rule}`" for rule in twin.breaks)
            lines.append(f"| {each.what} | {each.freedom} | {twin.what} | {rules} |\n")
    return _LINE + "".join(lines)


def with_budgets(page: str) -> str:
    """Return docs/atc.md with the current table of budgets."""
    before, begin, rest = page.partition("<!-- budgets: made by ci/docs -->\n")
    _, end, after = rest.partition("<!-- /budgets -->\n")
    return f"{before}{begin}\n{budget_table()}\n{end}{after}"


def main() -> int:
    """Write the pages, or with ``--check`` list those that are out of date."""
    parser = argparse.ArgumentParser(prog="ci/docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument(
        "--same", action="append", default=[], metavar="PAGE", help="the other language stays as is"
    )
    given = parser.parse_args()
    check = given.check
    stale = []
    pages = {
        "rules.md": rule_reference(),
        "options.md": option_reference(Language.ENGLISH),
        "zh/options.md": option_reference(Language.CHINESE),
        "api.md": api_reference(),
        "innocents.md": innocents_page(),
        "atc.md": with_budgets((_DOCS / "atc.md").read_text(encoding="utf-8")),
        "upgrading.md": upgrade_page(Language.ENGLISH),
        "words.md": words_page(Language.ENGLISH),
        "zh/words.md": words_page(Language.CHINESE),
        "zh/upgrading.md": upgrade_page(Language.CHINESE),
    }
    for name, text in pages.items():
        place = _DOCS / name
        if not place.exists() or place.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                place.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"docs/{name} {'is out of date: run ci/docs' if check else 'written'}")
    alone = unlike(pages, given.same, write=not check)
    for sentence in alone:
        print(sentence)
    return int(check and bool(stale)) or int(bool(alone))


if __name__ == "__main__":
    sys.exit(main())
