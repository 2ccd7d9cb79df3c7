"""Checks of TorchAir's static kernel compilation."""
