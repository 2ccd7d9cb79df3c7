"""Collectives of uneven sizes are not there."""
