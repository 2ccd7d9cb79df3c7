"""Ranks."""

import os


def init():
    """Do nothing: ranks meet in the directory that ``msrun`` names."""


def get_rank():
    return int(os.environ["RANK_ID"])
