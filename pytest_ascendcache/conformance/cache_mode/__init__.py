"""Checks of ATC ``--op_compiler_cache_mode``: modes, keys, debug switches, limits and aging."""
