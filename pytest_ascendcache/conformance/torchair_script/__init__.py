"""Checks of what a user's TorchAir script leaves (``--ascend-toolchain=torchair:SCRIPT.py``)."""
