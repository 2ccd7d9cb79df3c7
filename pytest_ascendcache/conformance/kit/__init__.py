"""Helpers of the suite's checks."""
