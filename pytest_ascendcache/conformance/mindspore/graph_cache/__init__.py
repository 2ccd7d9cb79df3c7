"""Checks of MindSpore's graph cache."""
