"""The release gate: what a model's release consists of, and what is wrong with its files.

This room reads ``release.toml`` and the files that it names. It compiles nothing.
"""

from pytest_ascendcache.release.configuration import (
    cache_mode_problems,
    contradictions,
    debug_problems,
    is_forced,
    own_cache,
)
from pytest_ascendcache.release.file import Release, ReleaseFileError, read_release
from pytest_ascendcache.release.inputs import file_sha256, package_stamps, read_digests
from pytest_ascendcache.release.kernels import (
    cached_names,
    compared_caches,
    copy_cache,
    filled_otherwise,
    holds_files,
    outdated_kernels,
    rank_directories,
    rank_problems,
    unserving_caches,
    unusable_caches,
)
from pytest_ascendcache.release.manifest import (
    KernelDigest,
    Manifest,
    ManifestError,
    distinct_operators,
    options_digest,
    read_manifest,
    release_settings,
    update_manifest,
    write_manifest,
)
from pytest_ascendcache.release.precision import (
    debugging_option_problems,
    has_two_implementations,
    kept_file_problems,
    precision_file_problems,
    uncompared_file,
    unknown_nodes,
    unknown_types,
)
from pytest_ascendcache.release.problem import Problem, story
from pytest_ascendcache.release.recorded import recorded_inputs
from pytest_ascendcache.release.samples import SamplesError, float32_outputs, sample_inputs

__all__ = [
    "KernelDigest",
    "Manifest",
    "ManifestError",
    "Problem",
    "Release",
    "ReleaseFileError",
    "SamplesError",
    "cache_mode_problems",
    "cached_names",
    "compared_caches",
    "contradictions",
    "copy_cache",
    "debug_problems",
    "debugging_option_problems",
    "distinct_operators",
    "file_sha256",
    "filled_otherwise",
    "float32_outputs",
    "has_two_implementations",
    "holds_files",
    "is_forced",
    "kept_file_problems",
    "options_digest",
    "outdated_kernels",
    "own_cache",
    "package_stamps",
    "precision_file_problems",
    "rank_directories",
    "rank_problems",
    "read_digests",
    "read_manifest",
    "read_release",
    "recorded_inputs",
    "release_settings",
    "sample_inputs",
    "story",
    "uncompared_file",
    "unknown_nodes",
    "unknown_types",
    "unserving_caches",
    "unusable_caches",
    "update_manifest",
    "write_manifest",
]
