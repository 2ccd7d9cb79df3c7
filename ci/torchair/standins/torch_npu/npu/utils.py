"""Versions. ``ASCENDCACHE_CANN`` is the release of CANN that the client finds."""

import os

CANN = os.environ.get("ASCENDCACHE_CANN", "8.1.RC1")


def get_cann_version(module="CANN"):
    return CANN


def _is_gte_cann_version(version, module="CANN"):
    numbers = [text.partition(".RC")[0].split(".")[:2] for text in (CANN, version)]
    own, asked = ([int(each) for each in text if each.isdigit()] for text in numbers)
    return own >= asked
