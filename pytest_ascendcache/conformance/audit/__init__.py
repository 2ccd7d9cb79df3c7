"""Checks of existing caches (``--ascend-audit``)."""
