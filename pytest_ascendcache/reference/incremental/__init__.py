"""Incremental build: a network's kernels are kept per rank, and only what changed is compiled.

Source: document M (incremental operator build of MindSpore); facts ``mindspore-incremental``.
Each kind of decision is a small policy class. All file operations go through
:class:`~pytest_ascendcache.reference.cache.fs.Fs`, those of this room at points ``meta.*``.
"""
