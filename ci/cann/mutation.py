"""Generates small changes of CANN's cache code, and reads the triage of surviving ones."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.contract.toml import tomllib

_SOURCE = "compiler/opcompiler/op_compile_adapter/source"
_PARSERS = "compiler/engines/nn_engine/utils/common/config_parser"
TARGETS = (
    f"{_SOURCE}/cache/te_cache_manager.cc",
    f"{_SOURCE}/cache/te_cache_space_manager.cc",
    f"{_SOURCE}/cache/te_cache_utils.cc",
    f"{_SOURCE}/common/compile_result_utils.cc",
    f"{_SOURCE}/common/te_file_utils.cc",
    f"{_SOURCE}/assemble_json/te_json_assemble.cc",
    f"{_PARSERS}/op_debug_config_parser.cc",
    f"{_PARSERS}/op_impl_mode_config_parser.cc",
)
"""The files that decide what is stored, reused, purged and aged, and under which key."""

_NOT_CODE = re.compile(
    r"^\s*(//|\*|/\*|#|TE_\w*LOG|FE_LOG|REPORT_|return nullptr|close(dir)?\(|\w+\.close\(\))"
    r"|RecordStatistics|ErrMessage|Map\[\"|\.c_str\(\)"
)
"""Lines that only log, or that close what the end of a block or of the process closes. Changes of
such lines change no behaviour."""

_LOGS = re.compile(r"\s*(TE_\w*LOG|FE_LOG)")

_CHANGES = (
    ("comparison", r" == ", " != "),
    ("comparison", r" != ", " == "),
    ("comparison", r" >= ", " > "),
    ("comparison", r" <= ", " < "),
    ("comparison", r" < ", " <= "),
    ("comparison", r" > ", " >= "),
    ("condition", r" && ", " || "),
    ("condition", r" \|\| ", " && "),
    ("condition", r"if \(!", "if ("),
    ("constant", r"return true;", "return false;"),
    ("constant", r"return false;", "return true;"),
    ("constant", r"\+ 1\b", "+ 2"),
    ("missing call", r"^(\s+)[\w.>:-]+\(.*\);$", r"\1;"),
    ("missing call", r"^(\s+)\w+(\[\"\w+\"\])? = .*;$", r"\1;"),
)


@dataclass(frozen=True)
class Mutant:
    """One changed line (1-based) of a file of the checkout. It is the ``nth`` mutant that changes
    the same text of that file in the same way."""

    file: str
    line: int
    kind: str
    before: str
    after: str
    nth: int = 1

    def __str__(self) -> str:
        """The mutant's name, which does not depend on the line's number."""
        which = "" if self.nth == 1 else f" (the {self.nth}. of them)"
        return f"{Path(self.file).name}: {self.before.strip()}  ->  {self.after.strip()}{which}"


VERDICTS = ("equivalent", "not promised", "missed")


@dataclass(frozen=True)
class Survivor:
    """The triage of a mutant that nothing noticed: its name, one of :data:`VERDICTS`, and why."""

    mutant: str
    verdict: str
    why: str

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(
                f"{self.mutant}: '{self.verdict}' is not one of {', '.join(VERDICTS)}."
            )


def survivors() -> Mapping[str, Survivor]:
    """Read the triage verdict of each examined survivor, by the mutant's name."""
    content = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text(encoding="utf-8"))
    return {each["mutant"]: Survivor(**each) for each in content.get("survivor", [])}


def _only_logs(block: Sequence[str]) -> bool:
    """Whether these lines begin with a condition, and what depends on it does nothing but log."""
    text = "\n".join([*block, ""])
    opened, _, rest = text.partition("{\n")
    body, closed, _ = rest.partition("}\n")
    statements = re.split(r"(?<=[;)])\n", body.rstrip())
    return (
        "\n" not in opened
        and opened.lstrip().startswith("if (")
        and bool(closed)
        and all(map(_LOGS.match, statements))
    )


def mutants(root: Path, executed: Mapping[str, set[int]]) -> Iterator[Mutant]:
    """Yield every change of an executed line, except of conditions that decide about logs only."""
    for file in TARGETS:
        met: Counter[tuple[str, str]] = Counter()
        lines = (root / file).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            if _NOT_CODE.search(line):
                continue
            drawn = number in executed.get(file, ()) and not _only_logs(lines[number - 1 :][:10])
            for kind, pattern, replacement in _CHANGES:
                changed = re.sub(pattern, replacement, line, count=1)
                if changed == line:
                    continue
                met[line.strip(), changed.strip()] += 1
                if drawn:
                    nth = met[line.strip(), changed.strip()]
                    yield Mutant(file, number, kind, line, changed, nth)


def sample(candidates: Sequence[Mutant], seed: int) -> list[Mutant]:
    """Return all mutants in a random order in which files take turns.

    Otherwise the long file that assembles the key would be half of any sample.
    """
    shuffled = random.Random(seed).sample(candidates, len(candidates))
    turns: dict[str, int] = {}
    order = []
    for mutant in shuffled:
        turns[mutant.file] = turns.get(mutant.file, -1) + 1
        order.append((turns[mutant.file], TARGETS.index(mutant.file), mutant))
    return [mutant for *_, mutant in sorted(order, key=lambda each: each[:2])]
