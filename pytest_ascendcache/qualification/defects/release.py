"""Toolchains that go wrong only when a release is compiled; scenes of releases use them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.installation import InstallationPolicy
from pytest_ascendcache.reference.policies import Policies


@defect(what="kernels are tuned for the card they are compiled on, if there are several")
def kernels_of_the_card() -> Policies:
    class Wrong(InstallationPolicy):
        def tuning(
            self, bank: str, soc: str, environ: Mapping[str, str]
        ) -> dict[str, dict[str, int]]:
            known = super().tuning(bank, soc, environ)
            if "RANK_SIZE" in os.environ:
                known = {**known, "Exp": {"tile": 4 + int(os.environ["RANK_ID"])}}
            return known

    return Policies(installation=Wrong())
