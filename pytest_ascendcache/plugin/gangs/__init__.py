"""Gangs as pytest items: the ranks of one test, in processes or on xdist workers."""
