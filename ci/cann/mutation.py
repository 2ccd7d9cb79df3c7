"""Small changes of CANN's cache code: which lines, in which way, and what was said of survivors."""

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
"""The code that decides what is stored, served, purged, aged, and under which key."""

_NOT_CODE = re.compile(
    r"^\s*(//|\*|/\*|#|TE_\w*LOG|FE_LOG|REPORT_|return nullptr|close(dir)?\()"
    r"|RecordStatistics|ErrMessage|Map\[\"|\.c_str\(\)"
)
"""Lines that say something and decide nothing, or close what the end of the process closes;
changing them changes no behaviour."""

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
    """One changed line (1-based) of a file below the checkout. ``nth`` of those that change the
    same text of that file in the same way."""

    file: str
    line: int
    kind: str
    before: str
    after: str
    nth: int = 1

    def __str__(self) -> str:
        """Its name, which stays while that line does, wherever it moves."""
        which = "" if self.nth == 1 else f" (the {self.nth}. of them)"
        return f"{Path(self.file).name}: {self.before.strip()}  ->  {self.after.strip()}{which}"


VERDICTS = ("equivalent", "not promised", "missed")


@dataclass(frozen=True)
class Survivor:
    """What was found of a mutant that nothing noticed: ``mutant`` is its name, ``verdict`` one of
    :data:`VERDICTS`."""

    mutant: str
    verdict: str
    why: str

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"{self.mutant}: '{self.verdict}' is none of {', '.join(VERDICTS)}.")


def survivors() -> Mapping[str, Survivor]:
    """Survivors that were looked at, by the name of the mutant."""
    content = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text(encoding="utf-8"))
    return {each["mutant"]: Survivor(**each) for each in content.get("survivor", [])}


def mutants(root: Path, executed: Mapping[str, set[int]]) -> Iterator[Mutant]:
    """Every change of an executed line."""
    for file in TARGETS:
        met: Counter[tuple[str, str]] = Counter()
        lines = (root / file).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            if _NOT_CODE.search(line):
                continue
            for kind, pattern, replacement in _CHANGES:
                changed = re.sub(pattern, replacement, line, count=1)
                if changed == line:
                    continue
                met[line.strip(), changed.strip()] += 1
                if number in executed.get(file, ()):
                    nth = met[line.strip(), changed.strip()]
                    yield Mutant(file, number, kind, line, changed, nth)


def sample(candidates: Sequence[Mutant], seed: int) -> list[Mutant]:
    """All of them in a random order in which the files take turns: the assembly of the key is long,
    and would be half of any other sample."""
    shuffled = random.Random(seed).sample(candidates, len(candidates))
    turns: dict[str, int] = {}
    order = []
    for mutant in shuffled:
        turns[mutant.file] = turns.get(mutant.file, -1) + 1
        order.append((turns[mutant.file], TARGETS.index(mutant.file), mutant))
    return [mutant for *_, mutant in sorted(order, key=lambda each: each[:2])]
