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


Judge = Callable[[Callable[[Life], None]], None]


@pytest.fixture
def judge(lives: Lives, ascend_evidence: Evidence, question: Question) -> Judge:
    """Judges a life by the question of the case."""

    def judge_life(story: Callable[[Life], None]) -> None:
        life = lives.life(story, ascend_evidence)
        if question is Question.UPGRADE:
            needs(life.cache.toolchain, Capability.VERSION_STAMP)
        life.findings.answer(question, ascend_evidence, life.cache.witness)

    return judge_life


@asks("outcomes kernels private place inert shared spared purged")
def test_a_cache_lives_through_every_mode(judge: Judge) -> None:
    judge(stories.modes)


@asks("outcomes kernels numbers modes types tables")
def test_a_cache_lives_with_both_implementations(judge: Judge) -> None:
    judge(stories.implementations)


@asks("outcomes kernels healing aging upgrade private links names place")
def test_a_cache_lives_through_accidents(judge: Judge) -> None:
    judge(stories.accidents)


@asks("outcomes kernels aging sources halves bad off renews chips created orphans mount")
def test_a_cache_lives_within_changing_limits(judge: Judge) -> None:
    judge(aging)


@asks("outcomes kernels healing upgrade private")
def test_a_cache_lives_through_every_short_history(
    judge: Judge, request: pytest.FixtureRequest
) -> None:
    full = request.getfixturevalue("ascend_session").settings.matrix == "full"
    judge(triples if full else pairs)
