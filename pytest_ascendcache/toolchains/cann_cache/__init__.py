"""CANN's own cache code, built from its public sources and wrapped in a command with ATC's
interface.

CANN's code does lookup, store, purge, aging, ``op_cache.ini``, versions, the parsing of debug
configurations and implementation modes, and the assembly of the key. ``docs/cann-source.md`` lists
what is ours.
"""
