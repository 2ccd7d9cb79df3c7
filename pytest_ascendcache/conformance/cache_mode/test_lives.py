"""Documents C and I: one cache through many runs, each judged by what the earlier runs left. Here
the promises meet; a story of a few runs says more about one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pytest_ascendcache.conformance.kit import lives as stories
from pytest_ascendcache.conformance.kit.aging_life import aging
from pytest_ascendcache.conformance.kit.findings import Question
from pytest_ascendcache.conformance.kit.life import Life
from pytest_ascendcache.conformance.kit.lives import Lives
from pytest_ascendcache.conformance.kit.pairs import pairs, triples
from pytest_ascendcache.conformance.kit.together import Caches
from pytest_ascendcache.conformance.kit.vocabulary import needs, rule
from pytest_ascendcache.contract import Capability
from pytest_ascendcache.observation import Evidence
from pytest_ascendcache.toolchains import Toolchain


@pytest.fixture(scope="session")
def lives(ascend_session: Caches, ascend_toolchain: Toolchain) -> Iterator[Lives]:
    """The lives of this session; all checks of one life share its runs."""
    shared = Lives(ascend_session, ascend_toolchain)
    yield shared
    shared.close()


def asks(cases: str) -> pytest.MarkDecorator:
    """A case for each of these questions, with the question's rule."""
    questions = {each.case: each for each in Question}
    params = [
        pytest.param(questions[case], marks=rule(questions[case].rule), id=case)
        for case in cases.split()
    ]
    return pytest.mark.parametrize("question", params)


@asks("outcomes kernels private place inert shared spared purged")
def test_a_cache_lives_through_every_mode(
    lives: Lives, ascend_evidence: Evidence, question: Question
) -> None:
    _judge(lives, stories.modes, ascend_evidence, question)


@asks("outcomes kernels numbers modes types tables")
def test_a_cache_lives_with_both_implementations(
    lives: Lives, ascend_evidence: Evidence, question: Question
) -> None:
    _judge(lives, stories.implementations, ascend_evidence, question)


@asks("outcomes kernels healing aging upgrade private links names place")
def test_a_cache_lives_through_accidents(
    lives: Lives, ascend_evidence: Evidence, question: Question
) -> None:
    _judge(lives, stories.accidents, ascend_evidence, question)


@asks("outcomes kernels aging sources halves bad off renews chips created orphans mount")
def test_a_cache_lives_within_changing_limits(
    lives: Lives, ascend_evidence: Evidence, question: Question
) -> None:
    _judge(lives, aging, ascend_evidence, question)


@asks("outcomes kernels healing upgrade private")
def test_a_cache_lives_through_every_short_history(
    lives: Lives,
    request: pytest.FixtureRequest,
    ascend_evidence: Evidence,
    question: Question,
) -> None:
    full = request.getfixturevalue("ascend_session").settings.matrix == "full"
    _judge(lives, triples if full else pairs, ascend_evidence, question)


def _judge(
    lives: Lives, story: Callable[[Life], None], evidence: Evidence, question: Question
) -> None:
    life = lives.life(story, evidence)
    if question is Question.UPGRADE:
        needs(life.cache.toolchain, Capability.VERSION_STAMP)
    life.findings.answer(question, evidence, life.cache.witness)
