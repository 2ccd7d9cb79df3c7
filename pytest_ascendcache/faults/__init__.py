"""Faults brought into a cache from outside. This room knows no rules."""

from pytest_ascendcache.faults.damage import DAMAGES, Damage

__all__ = ["DAMAGES", "Damage"]
