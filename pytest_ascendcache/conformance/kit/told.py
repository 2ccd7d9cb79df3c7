"""Facts as text for people. The facts decide; this text decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from pytest_ascendcache.conformance.kit.vocabulary import HIT
from pytest_ascendcache.contract.facts import (
    Aspect,
    Ending,
    Fact,
    Later,
    Subject,
    SubjectKind,
    outcome_fact,
)
from pytest_ascendcache.observation import CacheUnderTest, Evidence, NetworkRun, NotDecidable, Run
from pytest_ascendcache.observation.gated_run import crashed
from pytest_ascendcache.operators import OperatorSpec

_LISTED = 26
"""Names of idle entries that a message lists; of more it gives the number."""
_SHOWN = 3
"""Operators, entries or files that a message names for one deviation."""


def require_none(
    facts: Sequence[Fact], evidence: Evidence, *more: str, runs: Mapping[int, str] | None = None
) -> None:
    """Break the check if there are facts: put them into its evidence, and raise AssertionError with
    their text (see :func:`told`) and ``more`` lines."""
    evidence.facts += facts
    if facts:
        raise AssertionError("\n".join([told(facts, runs), *more]))


AnyRun = TypeVar("AnyRun", Run, NetworkRun)


def is_refused(run: Run) -> bool:
    """Whether a run ended with an error that names its directory, and delivered nothing."""
    code, named = run.returncode or 0, str(run.result.request.cache_dir) in run.output
    return named and code > 0 and not crashed(code) and not any(run.result.delivered)


def stays_usable(
    evidence: Evidence,
    attempt: Callable[[], AnyRun],
    failure: Callable[[AnyRun], str],
    what: str,
    refused: Callable[[AnyRun], bool] = lambda _: False,
) -> AnyRun:
    """A run. Breaks the check if it fails, fails again, and succeeds without what the cache holds:
    nothing can be run there any more. What is ``refused`` clearly may be used again elsewhere."""
    run = attempt()
    if refused(run):
        fact = Fact.of(Aspect.ENDING, Ending.REFUSAL, (Ending.SUCCESS,))
        why = f"{what}: the cache is refused"
        raise AssertionError(evidence.found(fact, why))
    if not run.succeeded and not (run := attempt()).succeeded:
        why = failure(run)
        assert not why, evidence.found(Later.FAILS, f"{what}: every run fails: {why}")
    return run


def needs_served(cache: CacheUnderTest, run: Run, operators: Iterable[OperatorSpec]) -> None:
    """To be called before a check of served kernels passes: what is not reused breaks the rule that
    promises it. Raises NotDecidable then, and where markers show nothing."""
    if not cache.marks:
        raise NotDecidable(f"marked entries are not served: {cache.control.reason}")
    missed = [each for each in operators if run[each] != HIT]
    for each in missed:
        fact = outcome_fact(run[each], [HIT], each, run=len(cache.evidence.steps))
        cache.evidence.saw_besides("cache-mode/enable-reuses", fact)
    if missed:
        raise NotDecidable(f"{len(missed)} operators are not served, among them {missed[0]}")


def accepted(evidence: Evidence, option: str, value: str = "") -> str:
    """Record that a bad value of an option, or a bad file, was accepted. Returns the message."""
    subject = Subject(SubjectKind.OPTION, option, value)
    fact = Fact.of(
        Aspect.ENDING,
        Ending.SUCCESS,
        (Ending.REFUSAL,),
        subject=subject,
        run=len(evidence.steps),
    )
    return evidence.found(fact, "the value was accepted")


def told(facts: Iterable[Fact], runs: Mapping[int, str] | None = None) -> str:
    """Facts as lines, equal ones once with what they are about; each begins with the name in
    ``runs``."""
    alike: dict[tuple[str, str], list[str]] = {}
    for fact in facts:
        run = f"run {fact.run}, {runs[fact.run]}" if runs and fact.run in runs else ""
        alike.setdefault((run, fact.detail or _words(fact)), []).append(fact.about)
    return "\n".join(
        _paragraph(run, _listed([*filter(None, abouts)]), what)
        for (run, what), abouts in alike.items()
    )


def differs(observed: object, expected: object) -> str:
    """The two lines with which a message tells what was observed and what was expected."""
    return f"observed: {observed}\nexpected: {expected}"


def counted(names: Iterable[str]) -> str:
    """Names of idle entries, each a character, or their number if there are many."""
    listed = sorted(names)
    return "".join(listed) or "none" if len(listed) <= _LISTED else str(len(listed))


def _paragraph(run: str, about: str, what: str) -> str:
    if not run and about and not what.startswith("observed: "):
        return f"{about}: {what}"
    heading = ": ".join(filter(None, (run, about)))
    return f"{heading}\n{what}" if heading else what


def _words(fact: Fact) -> str:
    expected = (_of(fact.aspect, each) for each in fact.expected)
    return differs(_of(fact.aspect, fact.observed), " or ".join(expected))


def _of(aspect: Aspect, code: str) -> str:
    if aspect is Aspect.ENTRY:
        return f"the entry of another operator {code}"
    return code.replace("/", ", entry ") if aspect is Aspect.OUTCOME else code


def _listed(abouts: Sequence[str]) -> str:
    more = len(abouts) - _SHOWN
    return ", ".join(abouts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
