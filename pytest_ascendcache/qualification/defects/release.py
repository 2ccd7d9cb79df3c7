"""Toolchains that go wrong only when a release is compiled; scenes of releases use them."""

from __future__ import annotations

import os
from dataclasses import replace

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.key import KeyPolicy
from pytest_ascendcache.reference.installation import InstallationPolicy
from pytest_ascendcache.reference.kernels import fused_type
from pytest_ascendcache.reference.model.fusion import FusionPolicy
from pytest_ascendcache.reference.outputs import OutputPolicy


@defect(overrides=InstallationPolicy.tuning)
def kernels_of_the_card(self, right, bank, soc, environ):
    """Kernels are tuned for the card they are compiled on, if there are several."""
    known = right(bank, soc, environ)
    if "RANK_SIZE" in os.environ:
        tile = {"tile": 4 + int(os.environ["RANK_ID"])}
        known = {**known, "Exp": tile, "SoftmaxV2": tile}
    return known


@defect(overrides=OutputPolicy.deliver_model)
def kernels_by_chance(self, right, path, model):
    """Every run leaves other bytes in the unused part of each kernel's header."""

    def stamped(kernel):
        return replace(kernel, object=kernel.object[:9] + os.urandom(7) + kernel.object[16:])

    kernels = {stem: stamped(each) for stem, each in model.kernels.items()}
    right(path, replace(model, kernels=kernels))


@defect(overrides=FusionPolicy.bias)
def loses_the_bias(self, right, graph, node):
    """Fusing a bias into its product drops it."""
    match = right(graph, node)
    if match is None:
        return None
    gone, made = match
    operator = replace(made.operator, inputs=made.operator.inputs[:2])
    return gone, replace(made, operator=operator, inputs=made.inputs[:2])


@defect(overrides=KeyPolicy.fields)
def fused_key_without_epsilon(self, right, inputs):
    """The key of a fused kernel has the attributes of its first part alone."""
    fields = right(inputs)
    if inputs.operator.type == fused_type("Add", "LayerNorm"):
        fields["attributes"] = []
    return fields
