"""Checks of ATC ``--op_select_implmode``."""
