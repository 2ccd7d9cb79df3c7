"""Scripts for vendors: each sees the bug in a broken stand-in, and none in the sound reference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_ascendcache.contract import Outcome
from pytest_ascendcache.contract.facts import Aged, Fact, Subject, SubjectKind, outcome_fact
from pytest_ascendcache.contract.outcome import (
    ABSENT,
    COMPILED,
    KEPT,
    REMOVED,
    REUSED,
    REWRITTEN,
    STORED,
)
from pytest_ascendcache.reports.script import LINES, plain_script

POOL = Path(__file__).parents[2] / "ci/blame.d"
ATC = Path(sys.executable).parent / "ascendcache-atc"
RULE = "cache-mode/force-purges-soc"
MODE = "--op_compiler_cache_mode"
HIT, NEW = Outcome(REUSED, KEPT), Outcome(COMPILED, STORED)
TENSOR = {"format": "ND", "shape": [4, 8], "type": "float32"}
SIZE = Subject(SubjectKind.VARIABLE, "ASCEND_MAX_OP_CACHE_SIZE", "8")
INI = Subject(SubjectKind.FILE, "op_cache.ini")
ENABLE, FORCE, DISABLE = (f"{MODE}={each}" for each in ("enable", "force", "disable"))
LEVEL = f"{ENABLE} --op_debug_level=1"


def _script(directory: Path, fact: Fact, *requests: str, rule: str = RULE) -> str:
    """The script for a check that made these requests of Add, the last one of Exp, too."""
    steps = []
    for number, request in enumerate(requests):
        operators = directory / f"{number}.json"
        types = ("Exp", "Add") if number and fact.about == "Add on a chip" else ("Add",)
        operators.write_text(
            json.dumps(
                [
                    {
                        "op": each,
                        "name": each,
                        "input_desc": [TENSOR] * (2 if each == "Add" else 1),
                        "output_desc": [TENSOR],
                    }
                    for each in types
                ]
            )
        )
        command = (
            f"cd /x && HOME=/x atc --singleop={operators} --output=/x --soc_version=Ascend910B1"
        )
        steps.append(
            {
                "command": f"{command} {request} --op_compiler_cache_dir=/x/cache",
                "outcomes": [f"{types[0]}: x"],
                "codes": ["compiled/stored"],
            }
        )
    return plain_script({"rule": rule, "evidence": {"steps": steps}}, fact)


@pytest.mark.parametrize(
    ("stand_in", "fact", "requests"),
    [
        ("force-is-enable", outcome_fact(HIT, [Outcome(COMPILED, REWRITTEN)]), (ENABLE, FORCE)),
        ("force-is-enable", outcome_fact(KEPT, [REMOVED], "Add on a chip"), (ENABLE, FORCE)),
        ("disable-is-enable", outcome_fact(NEW, [Outcome(COMPILED, ABSENT)]), (DISABLE,)),
        ("enable-is-disable", outcome_fact(Outcome(COMPILED, ABSENT), [NEW]), (ENABLE,)),
        ("enable-is-force", outcome_fact(Outcome(COMPILED, REWRITTEN), [HIT]), (ENABLE, ENABLE)),
        ("directory-ignored", outcome_fact(Outcome(COMPILED, ABSENT), [NEW]), (ENABLE,)),
        ("debug-level-ignored", outcome_fact(HIT, [Outcome(COMPILED, KEPT)]), (ENABLE, LEVEL)),
        ("size-ignored", Fact.seen(Aged.TOO_FEW, "", subject=SIZE), (ENABLE,)),
        ("ini-ignored", Fact.seen(Aged.TOO_FEW, "", subject=INI), (ENABLE,)),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_script_tells_the_broken_from_the_sound(
    stand_in: str, fact: Fact, requests: tuple[str, ...], tmp_path: Path
) -> None:
    script = _script(tmp_path, fact, *requests)
    assert 0 < script.count("\n") <= LINES
    path = tmp_path / "cause.sh"
    path.write_text(script)
    for atc, status in ((ATC, 0), (POOL / f"{stand_in}.sh", 1)):
        ended = subprocess.run(
            ["sh", path, atc],
            env={**os.environ, "REAL_ATC": str(ATC), "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == status, f"{atc}: {ended.stdout}{ended.stderr}\n{script}"


def test_no_script_where_two_compiles_cannot_show_it(tmp_path: Path) -> None:
    assert _script(tmp_path, Fact.seen(Aged.HALF, ""), ENABLE) == ""
    assert plain_script({"rule": RULE, "evidence": {"steps": []}}, outcome_fact(HIT, [NEW])) == ""
    assert _script(tmp_path, outcome_fact(HIT, [NEW]), *[ENABLE] * 5) == ""
    event = "robust/read-only-cache"
    assert _script(tmp_path, outcome_fact(HIT, [NEW]), ENABLE, ENABLE, rule=event) == ""
