"""Toolchains that fail only when a release is compiled; scenes of releases use them."""

import hashlib
import os
from dataclasses import replace

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.key import KeyPolicy
from pytest_ascendcache.reference.installation import InstallationPolicy
from pytest_ascendcache.reference.kernels import fused_type
from pytest_ascendcache.reference.model.fusion import FusionPolicy
from pytest_ascendcache.reference.outputs import OutputPolicy


@defect(overrides=InstallationPolicy.tuning)
def kernels_of_the_card(self, right, bank, soc, environ):
    """With several cards, kernels are tuned for the card they are compiled on."""
    known = right(bank, soc, environ)
    if "RANK_SIZE" in os.environ:
        tile = {"tile": 4 + int(os.environ["RANK_ID"])}
        known = {**known, "Exp": tile, "SoftmaxV2": tile}
    return known


@defect(overrides=OutputPolicy.deliver_model)
def kernels_by_chance(self, right, path, model):
    """Every run writes random bytes to the unused part of each kernel's header."""
    right(path, _with_objects(model, lambda data: data[:9] + os.urandom(7) + data[16:]))


def _with_objects(model, change):
    """The model with the objects of its kernels changed."""
    kernels = {
        stem: replace(each, object=change(each.object)) for stem, each in model.kernels.items()
    }
    return replace(model, kernels=kernels)


@defect(overrides=OutputPolicy.deliver_model)
def other_cards_cut_large_kernels(self, right, path, model):
    """On every card but the first a kernel of more than 2500 bytes ends in zeros."""
    if os.environ.get("RANK_ID", "0") != "0":
        model = _with_objects(
            model, lambda data: data[:-8] + bytes(8) if len(data) > 2500 else data
        )
    right(path, model)


@defect(overrides=OutputPolicy.deliver_model)
def largest_kernel_by_process(self, right, path, model):
    """The largest kernel of a model has the process id in its header."""
    stem, kernel = max(model.kernels.items(), key=lambda each: len(each[1].object))
    stamp = os.getpid().to_bytes(7, "little")
    kernel = replace(kernel, object=kernel.object[:9] + stamp + kernel.object[16:])
    right(path, replace(model, kernels={**model.kernels, stem: kernel}))


@defect(overrides=DirectoryPolicy.soc, memory={"directory": None})
def weights_by_their_beginning(self, right, root, soc):
    """A weight comes from the cache if its name, its shape and its first 64 bytes are the same."""
    self.memory.directory = right(root, soc)
    return self.memory.directory


@weights_by_their_beginning.also(OutputPolicy.deliver_model)
def _(self, right, path, model):
    directory = self.memory.directory
    weights = model.graph.weights
    if directory is not None:
        weights = {name: _cached(directory, name, each) for name, each in weights.items()}
    right(path, replace(model, graph=replace(model.graph, weights=weights)))


def _cached(directory, name, value):
    """The weight that the cache has for this one; otherwise this one, which is stored."""
    import numpy

    key = f"{name} {value.shape} {value.dtype}".encode() + value.tobytes()[:64]
    file = directory / f"weight_{hashlib.sha256(key).hexdigest()}.bin"
    if file.exists():
        return numpy.frombuffer(file.read_bytes(), value.dtype).reshape(value.shape)
    file.write_bytes(value.tobytes())
    return value


@defect(overrides=FusionPolicy.bias)
def loses_the_bias(self, right, graph, node):
    """Fusing a bias into its product drops the bias."""
    if (match := right(graph, node)) is None:
        return None
    gone, made = match
    operator = replace(made.operator, inputs=made.operator.inputs[:2])
    return gone, replace(made, operator=operator, inputs=made.inputs[:2])


@defect(overrides=FusionPolicy.activation)
def forgets_a_relu(self, right, graph, node):
    """Fusing a Relu into the operator before it drops the Relu."""
    match = right(graph, node)
    if match is None or node.operator.type != "Relu":
        return match
    gone, made = match
    producer = gone[0].operator
    operator = replace(made.operator, type=producer.type, attributes=producer.attributes)
    return gone, replace(made, operator=operator)


@defect(overrides=FusionPolicy.add_layer_norm)
def swaps_scale_and_shift(self, right, graph, node):
    """Fusing Add with LayerNorm swaps scale and shift."""
    if (match := right(graph, node)) is None:
        return None
    gone, made = match
    first, second, scale, shift = made.inputs
    return gone, replace(made, inputs=(first, second, shift, scale))


@defect(overrides=FusionPolicy.passes)
def last_card_fuses_no_activation(self, right):
    """The last of several cards does not fuse activations."""
    if os.environ.get("RANK_ID") != str(int(os.environ.get("RANK_SIZE", "0")) - 1):
        return right()
    return tuple(each for each in right() if each[0] != "ActivationFusion")


@defect(overrides=KeyPolicy.fields)
def fused_key_without_epsilon(self, right, inputs):
    """The key of Add fused with LayerNorm lacks the attributes."""
    fields = right(inputs)
    if inputs.operator.type == fused_type("Add", "LayerNorm"):
        fields["attributes"] = []
    return fields


@defect(overrides=KeyPolicy.fields)
def fused_key_without_implementation(self, right, inputs):
    """The key of Add fused with LayerNorm lacks the implementation mode."""
    fields = right(inputs)
    if inputs.operator.type == fused_type("Add", "LayerNorm"):
        fields["implementation"] = ""
    return fields
