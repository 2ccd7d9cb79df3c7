"""Gangs: tests whose body runs once per rank, at the same time.

Ranks are forked processes of one test (``local``), or tests on distinct xdist workers.
"""

from pytest_ascendcache.ranks.gang import Gang, Reply
from pytest_ascendcache.ranks.rank import GangAborted, Rank, RankLost, Rendezvous

__all__ = ["Gang", "GangAborted", "Rank", "RankLost", "Rendezvous", "Reply"]
