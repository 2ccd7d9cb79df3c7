"""Checks of MindSpore's Ascend releases beside document M."""
