"""Several cards: the test runs once per rank, at the same time."""

import pytest


@pytest.mark.ascend_ranks(2)
def test_every_card_gets_the_same_kernels(ascend_rank, ascend_cache, our_operators):
    run = ascend_cache.compile(*our_operators, mode="enable", environment=ascend_rank.environment)
    kernels = ascend_rank.gather([run.kernel(operator).hex() for operator in our_operators])
    assert all(each == kernels[0] for each in kernels)
