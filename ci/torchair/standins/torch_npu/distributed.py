"""Stands in for collectives of uneven sizes, which are not available."""
