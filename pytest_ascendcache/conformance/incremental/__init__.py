"""Checks of MindSpore's incremental operator build and its ranks."""
