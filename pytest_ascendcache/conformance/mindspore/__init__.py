"""Checks of MindSpore's published wheel."""
