"""Toolchains that go wrong only when a release is compiled; scenes of releases use them."""

from __future__ import annotations

import os

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.installation import InstallationPolicy


@defect(overrides=InstallationPolicy.tuning)
def kernels_of_the_card(self, right, bank, soc, environ):
    """Kernels are tuned for the card they are compiled on, if there are several."""
    known = right(bank, soc, environ)
    if "RANK_SIZE" in os.environ:
        known = {**known, "Exp": {"tile": 4 + int(os.environ["RANK_ID"])}}
    return known
