"""Makes small changes in CANN's cache code, one at a time, and counts those that the suite notices.

Run by ``ci/verify-cann --mutants=N``. It changes only lines that the smoke selection executes. A
mutant is noticed if a check fails or warns beyond the lists of known deviations, does so again when
run alone, and passes on the original afterwards. An undecided check notices nothing. A change that
does not compile is no mutant. Answers are kept, so that an interrupted run continues.
``mutants.toml`` has the survivors that a person examined: those that change nothing a document
promises are left out of the share, and not judged again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from judging import Answer, Place, Way, judge
from mutation import Mutant, mutants, sample, survivors

from pytest_ascendcache.toolchains.cann_cache.build import default_store
from pytest_ascendcache.toolchains.cann_cache.plan import SourceError

_KEPT = Path(__file__).parents[2] / "build" / "cann"
_AT_ONCE = 2


def executed_lines(source: Path, way: Way) -> dict[str, set[int]]:
    """Return the lines of the targets that the smoke selection executes, according to gcov.

    The built objects are kept for the next time, but not their counts: an object that an older
    stand-in belongs to would count lines that nothing executes any more.
    """
    cache = default_store() / "coverage"
    environment = {
        "XDG_CACHE_HOME": str(cache),
        "CXXFLAGS": "--coverage",
        "LDFLAGS": "--coverage",
    }
    for counts in cache.rglob("*.gcda"):
        counts.unlink()
    judge(source, way, "--ascend-select=60runs", environment=environment)
    executed: dict[str, set[int]] = {}
    for counts in cache.rglob("*.gcda"):
        output = subprocess.run(
            ["gcov", "--json-format", "--stdout", str(counts)],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        for document in map(json.loads, output.splitlines()):
            for file in document["files"]:
                lines = {each["line_number"] for each in file["lines"] if each["count"] > 0}
                executed.setdefault(file["file"], set()).update(lines)
    return executed


class Kept:
    """The answers of earlier runs on the same sources, in a file with a line of JSON for each."""

    def __init__(self, path: Path, way: Way) -> None:
        self.path, self._quick, self._edition = path, way.quick, way.edition
        path.parent.mkdir(parents=True, exist_ok=True)

    def answers(self) -> Iterator[tuple[str, Answer]]:
        """Yield usable answers by the name of the mutant.

        Undecided mutants are asked again, and so are those that only a quick run missed.
        """
        lines = self.path.read_text("utf-8").splitlines() if self.path.exists() else []
        for each in map(json.loads, lines):
            if each["edition"] != self._edition:
                continue
            answer = Answer(each["word"], each["check"])
            as_much = self._quick or not each["quick"]
            if answer.word == "noticed" or (answer.word == "missed" and as_much):
                yield each["mutant"], answer

    def add(self, mutant: Mutant, answer: Answer) -> None:
        """Keep an answer."""
        line = {"mutant": str(mutant), "edition": self._edition, "quick": self._quick}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, **asdict(answer)}) + "\n")


def examined() -> dict[str, Answer]:
    """Return the answers that need no run: a person has said why nothing promised changes."""
    known = survivors().items()
    return {name: Answer("missed") for name, each in known if each.verdict != "missed"}


@dataclass
class Tally:
    """The answers about mutants."""

    answers: dict[Mutant, Answer] = field(default_factory=dict)

    def of(self, word: str) -> dict[Mutant, str]:
        """Return the mutants with this answer, each with its check."""
        return {each: its.check for each, its in self.answers.items() if its.word == word}

    def share(self, doubtful: Collection[str]) -> str:
        """Return the noticed share of all mutants, and of those that change something promised."""
        known = survivors()
        sure = [check for check in self.of("noticed").values() if check not in doubtful]
        others = [str(each) for word in ("undecided", "missed") for each in self.of(word)]
        harmless = sum(each in known and known[each].verdict != "missed" for each in others)
        changing = len(self.answers) - harmless
        return (
            f"mutants: {len(sure)} of {len(self.answers)} noticed, {len(self.of('undecided'))} "
            f"undecided; {harmless} of the others change nothing that is promised: {len(sure)} of "
            f"{changing} ({len(sure) / max(changing, 1):.0%})"
        )


class Run:
    """Judges mutants, two at once, each in its own copy of the checkout."""

    def __init__(self, options: argparse.Namespace, kept: Kept, places: Sequence[Place]) -> None:
        self._options, self._kept = options, kept
        self._before = {} if options.again else {**examined(), **dict(kept.answers())}
        self._places = list(places)
        self._lock = threading.Lock()
        self._under_way = 0
        self.tally = Tally()

    def all(self, candidates: Sequence[Mutant]) -> Tally:
        """Judge as many mutants as requested."""
        texts = self._options.only or [""]
        left = iter([each for each in candidates if any(text in str(each) for text in texts)])
        with ThreadPoolExecutor(len(self._places)) as pool:
            for work in [pool.submit(self._work, place, left) for place in self._places]:
                work.result()
        return self.tally

    def _next(self, left: Iterator[Mutant]) -> Mutant | None:
        with self._lock:
            if len(self.tally.answers) + self._under_way >= self._options.count:
                return None
            mutant = next(left, None)
            self._under_way += mutant is not None
            return mutant

    def _work(self, place: Place, left: Iterator[Mutant]) -> None:
        while (mutant := self._next(left)) is not None:
            started = time.monotonic()
            answer = self._before.get(str(mutant))
            if answer is None and (answer := place.judge(mutant, self._telling())) is not None:
                self._kept.add(mutant, answer)
            with self._lock:
                self._under_way -= 1
                if answer is not None:
                    self.tally.answers[mutant] = answer
            if answer is not None:
                took = time.monotonic() - started
                print(f"{answer.word:9} {took:4.0f} s {mutant}  {answer.check}", flush=True)

    def _telling(self) -> list[str]:
        with self._lock:
            return list(dict.fromkeys(reversed(list(self.tally.of("noticed").values()))))


def run(options: argparse.Namespace, work: Path, way: Way) -> int:
    """Judge mutants of a checkout, which is copied to ``work``.

    A check that noticed a mutant must pass on the original afterwards, or it noticed nothing.
    """
    source = options.source.resolve()
    places = [Place(source, work / f"copy{each}", way) for each in range(_AT_ONCE)]
    candidates = list(mutants(places[0].root, executed_lines(places[0].root, way)))
    print(f"{len(candidates)} changes of executed lines; seed {options.seed}", flush=True)
    kept = Kept(_KEPT / f"mutants-{places[0].original.root.name}.jsonl", way)
    tally = Run(options, kept, places).all(sample(candidates, options.seed))
    doubtful = places[0].broken_of(set(tally.of("noticed").values()))
    for mutant, check in tally.of("noticed").items():
        if check in doubtful:
            print(f"DOUBTFUL {mutant}  {check} does not pass on the original either")
    for mutant in (*tally.of("undecided"), *tally.of("missed")):
        survivor = survivors().get(str(mutant))
        triage = f"{survivor.verdict}: {survivor.why}" if survivor else "not examined"
        print(f"survivor {mutant}  {triage}")
    print(tally.share(doubtful))
    return 0


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description="Mutants of CANN's cache code against the suite.")
    parser.add_argument("source", type=Path)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", metavar="TEXT", help="only names with this text")
    parser.add_argument("--quick", action="store_true", help="only rules about the changed file")
    parser.add_argument("--again", action="store_true", help="ignore kept and known answers")
    parser.add_argument("--edition", required=True, help="edition of CANN's documents")
    options, more = parser.parse_known_args()
    if options.count < 1:
        parser.error(f"the number of mutants must be at least 1, not {options.count}")
    default_store().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mutants-", dir=default_store()) as name:
        try:
            return run(options, Path(name), Way(options.edition, options.quick, more))
        except SourceError as error:
            print(f"ci/verify-cann: {error}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
