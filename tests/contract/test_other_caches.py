"""Caches that are judged by their own documents."""

from __future__ import annotations

import pytest

from pytest_ascendcache.contract import Level, load_rules, rules_for
from pytest_ascendcache.contract.rules import RuleFileError


def test_any_other_toolchain_has_the_rules_as_they_are() -> None:
    assert rules_for("atc") == load_rules()


@pytest.mark.parametrize("name", ["mindspore-graph-cache", "mindspore-operator-cache"])
def test_document_m_blames_no_other_cache(name: str) -> None:
    rules = rules_for(name)
    assert list(rules) == list(load_rules())
    blamed = [
        rule
        for rule in rules.values()
        if rule.level is Level.MUST and rule.source.document.startswith("MindSpore r1.6")
    ]
    assert blamed == []


def test_an_admitted_limit_is_no_broken_promise() -> None:
    rule = rules_for("mindspore-graph-cache")["incremental/compiles-changed-only"]
    assert rule.level is Level.INFO
    assert "limited automatic detection" in rule.statement
    assert "MS_COMPILER_CACHE_ENABLE" in str(rule.source)


@pytest.mark.parametrize(
    "fields",
    [
        'id = "no/rule"\nlevel = "must"\nstatement = "x"\nsection = "y"\n',
        'id = "incremental/reuses"\nlevel = "must"\nstatement = "x"\n',
    ],
)
def test_a_file_that_describes_no_rule_is_refused(
    tmp_path, monkeypatch: pytest.MonkeyPatch, fields: str
) -> None:
    load_rules()
    monkeypatch.setattr("pytest_ascendcache.contract.rules.__file__", str(tmp_path / "rules.py"))
    (tmp_path / "other_caches").mkdir()
    text = f'toolchain = "mine"\ndocument = "mine"\n[[rule]]\n{fields}'
    (tmp_path / "other_caches" / "mine.toml").write_text(text)
    with pytest.raises(RuleFileError, match=r"mine\.toml"):
        rules_for("mine")
