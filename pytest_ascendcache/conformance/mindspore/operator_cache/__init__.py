"""Checks of MindSpore's operator cache."""
