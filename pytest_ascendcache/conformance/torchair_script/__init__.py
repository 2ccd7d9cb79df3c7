"""Checks of what a user's TorchAir script leaves (``--ascend-torchair-script``)."""
