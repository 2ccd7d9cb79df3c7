"""Checks of a model's release (``--ascend-release``)."""
