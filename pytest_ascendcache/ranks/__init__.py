"""Gangs: one check whose body runs once per rank, at the same time. Knows no rules.

Ranks are forked processes of one item (``local``), or items on distinct xdist workers.
"""

from pytest_ascendcache.ranks.gang import Gang, Reply
from pytest_ascendcache.ranks.rank import GangAborted, Rank, RankLost, Rendezvous

__all__ = ["Gang", "GangAborted", "Rank", "RankLost", "Rendezvous", "Reply"]
