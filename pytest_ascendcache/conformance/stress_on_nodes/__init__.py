"""Ranks at random on nodes (``--ascend-stress`` with ``--ascend-nodes``)."""
