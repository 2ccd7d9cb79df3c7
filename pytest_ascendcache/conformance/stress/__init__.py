"""Ranks at random (``--ascend-stress``)."""
