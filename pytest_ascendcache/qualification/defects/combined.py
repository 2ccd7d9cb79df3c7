"""Wrong decisions that need several options together; each is right for every single option."""

from dataclasses import replace

from pytest_ascendcache.qualification.catalogue import defect, override
from pytest_ascendcache.reference.cache.entry import LookupPolicy, StorePolicy
from pytest_ascendcache.reference.cache.key import KeyPolicy
from pytest_ascendcache.reference.cache.limits import RATIO_KEY, SIZE_KEY, Found, LimitPolicy
from pytest_ascendcache.reference.cache.purge import PurgePolicy
from pytest_ascendcache.reference.debug import DebugPolicy
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.impl_mode import ImplementationPolicy
from pytest_ascendcache.reference.mode import ModePolicy
from pytest_ascendcache.reference.model.fusion import FusionPolicy

OUTCOME = "combinations/outcome"
NUMBERS = "combinations/numbers"
TRANSPARENT = "cache-mode/transparent"
FOR_ALL = "impl-mode/for-all"
HEALS = "robust/heals-damaged-entry"


@override(
    ImplementationPolicy.table,
    memory={"precision_file": False, "type_list": False, "model": False},
)
def sees_modes(self, right, options, environ):
    """Remembers whether a run has a precision file, a type list, and a model."""
    self.memory.model = options.model is not None
    self.memory.precision_file = bool(options.precision_mode)
    self.memory.type_list = bool(options.impl_mode_types)
    return right(options, environ)


@override(DebugPolicy.read, memory={"debug_list": False})
def sees_list(self, right, path):
    """Remembers whether a run has a debug list."""
    config = right(path)
    self.memory.debug_list = _has_list(config)
    return config


def _has_list(config):
    return config is not None and config.listed is not None


@defect(OUTCOME, TRANSPARENT, NUMBERS, overrides=KeyPolicy.fields, also=[sees_modes])
def mode_not_in_key_beside_a_file(self, right, inputs):
    """With a precision file the mode is not in the key."""
    fields = right(inputs)
    return {**fields, "implementation": ""} if self.memory.precision_file else fields


@defect(OUTCOME, overrides=LimitPolicy.find)
def half_a_file_loses_the_ratio(self, right, fs, root, kernel_cache, environ):
    """If op_cache.ini has only one of its values, the ratio set elsewhere is lost."""
    found = right(fs, root, kernel_cache, environ)
    for path in self.places(root, kernel_cache):
        text = path.read_text() if path.exists() else ""
        if (f"\n{SIZE_KEY}=" in text) != (f"\n{RATIO_KEY}=" in text):
            return replace(found, limits=replace(found.limits, ratio=self.default.ratio))
    return found


@defect(OUTCOME, overrides=(ModePolicy.opens_cache, DebugPolicy.request))
def list_beats_level(self, right, subject, level, config):
    """With a debug list the debug level does not keep other operators from the cache."""
    return right(subject, 0 if _has_list(config) else level, config)


@defect(OUTCOME, overrides=PurgePolicy.force, also=[sees_modes])
def force_beside_a_file_spares(self, right, fs, soc_directory):
    """With a precision file force does not purge."""
    return self.memory.precision_file or right(fs, soc_directory)


@defect(OUTCOME, overrides=LimitPolicy.find, also=[sees_list])
def nothing_ages_beside_a_list(self, right, *arguments):
    """With a debug list nothing ages."""
    found = right(*arguments)
    return Found(replace(found.limits, megabytes=-1)) if self.memory.debug_list else found


@defect(NUMBERS, overrides=ImplementationPolicy.table)
def type_list_exchanged_on_one_chip(self, right, options, environ):
    """On one chip a type list selects the other mode."""
    if options.soc_version.startswith("Ascend310") and options.impl_mode_types:
        other = {"high_precision": "high_performance", "high_performance": "high_precision"}.get(
            options.impl_mode, options.impl_mode
        )
        options = replace(options, impl_mode=other)
    return right(options, environ)


@defect(HEALS, overrides=StorePolicy.publish, also=[sees_modes])
def damage_stays_beside_a_type_list(self, right, fs, entry, data, metadata, keep):
    """With a type list damaged entries are not replaced."""
    exists = entry.metadata.exists() or entry.object.exists()
    if self.memory.type_list and exists and keep:
        return True
    return right(fs, entry, data, metadata, keep)


@defect(TRANSPARENT, overrides=LookupPolicy.find, also=[sees_modes])
def unverified_beside_a_file(self, right, fs, entry, expected):
    """With a precision file entries are served without being verified."""
    if self.memory.precision_file and entry.object.exists() and entry.metadata.exists():
        return entry.object.read_bytes()
    return right(fs, entry, expected)


@defect(OUTCOME, overrides=ImplementationPolicy.table, memory={"types": ()})
def type_list_in_key(self, right, options, environ):
    """With a debug file the key of every operator has the type list, in its order."""
    self.memory.types = options.impl_mode_types if options.debug_config else ()
    return right(options, environ)


@type_list_in_key.also(KeyPolicy.fields)
def _(self, right, inputs):
    return {**right(inputs), "types": list(self.memory.types)}


@defect(OUTCOME, overrides=FusionPolicy.fuse)
def fuses_what_a_list_names(self, right, graph, allows, off):
    """Nodes of a model are fused although op_debug_list names one, and served from the cache."""
    return right(graph, lambda _: True, off)


@defect(OUTCOME, overrides=FusionPolicy.fuse, memory={"fusing": False}, found_later=True)
def fuses_what_a_list_names_by_type(self, right, graph, allows, off):
    """Fusion asks op_debug_list for names of nodes, and not for OpType::Type."""
    self.memory.fusing = True
    fused = right(graph, allows, off)
    self.memory.fusing = False
    return fused


@fuses_what_a_list_names_by_type.also(DebugPolicy.matches)
def _(self, right, item, operator):
    return not (self.memory.fusing and "::" in item) and right(item, operator)


@defect(TRANSPARENT, overrides=KeyPolicy.fields)
def fused_kernels_of_every_mode(self, right, inputs):
    """The key of a fused node of a model lacks the implementation mode."""
    fields = right(inputs)
    return {**fields, "implementation": ""} if "+" in inputs.operator.name else fields


@defect(TRANSPARENT, overrides=KeyPolicy.fields)
def fused_kernels_of_every_bias(self, right, inputs):
    """The key of a fused node of a model has the first of its inputs only."""
    fields, operator = right(inputs), inputs.operator
    if "+" not in operator.name:
        return fields
    first = replace(operator, inputs=operator.inputs[:1])
    return right(replace(inputs, operator=first))


@defect(OUTCOME, overrides=ModePolicy.opens_cache, also=[sees_modes])
def models_are_stored_under_disable(self, right, mode, level, config):
    """New kernels of a model are stored under disable, too."""
    return right("enable" if self.memory.model else mode, level, config)


@defect(OUTCOME, overrides=(ModePolicy.opens_cache, ModePolicy.use), also=[sees_modes])
def disable_is_enable_for_models(self, right, mode, *debug):
    """A model is converted with the cache under disable, too."""
    return right("enable" if self.memory.model and mode == "disable" else mode, *debug)


@defect(OUTCOME, overrides=ModePolicy.opens_cache, also=[sees_modes])
def models_have_no_debug_level(self, right, mode, level, config):
    """A debug level does not keep the nodes of a model from the cache."""
    return right(mode, 0 if self.memory.model else level, config)


@models_have_no_debug_level.also(DebugPolicy.request)
def _(self, right, subject, level, config):
    return right(subject, 0 if self.memory.model else level, config)


@defect(OUTCOME, overrides=(ModePolicy.use, ModePolicy.purges), also=[sees_modes])
def force_is_enable_for_models(self, right, mode, *debug):
    """Force neither removes nor compiles anything for a model that is in the cache."""
    return right("enable" if self.memory.model else mode, *debug)


@defect(TRANSPARENT, overrides=LookupPolicy.find, also=[sees_modes], memory={"warm": None})
def models_fail_beside_others(self, right, fs, entry, expected):
    """A model is not converted if some of its nodes were in the cache and others were not."""
    if self.memory.warm is None:
        self.memory.warm = any(entry.directory.glob("te_*.o"))
    data = right(fs, entry, expected)
    if self.memory.model and self.memory.warm and data is None:
        raise AtcError("E40021", "The cache has no entry for a node.")
    return data


@defect(OUTCOME, overrides=FusionPolicy.fuse, memory={"by_file": False}, found_later=True)
def a_precision_file_hides_the_list_from_fusion(self, right, graph, allows, off):
    """With a precision file what is in op_debug_list is fused all the same."""
    return right(graph, (lambda _: True) if self.memory.by_file else allows, off)


@a_precision_file_hides_the_list_from_fusion.also(ImplementationPolicy.select)
def _(self, right, options, environ):
    self.memory.by_file = bool(options.precision_mode)
    return right(options, environ)
