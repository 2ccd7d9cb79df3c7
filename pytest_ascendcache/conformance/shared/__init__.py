"""Checks of one folder: see its modules."""
