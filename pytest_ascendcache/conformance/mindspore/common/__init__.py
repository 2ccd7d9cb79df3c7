"""Checks of both of MindSpore's caches."""
