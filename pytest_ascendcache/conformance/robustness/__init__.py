"""Checks every cache has to stand: damage, interruption, races, security."""
