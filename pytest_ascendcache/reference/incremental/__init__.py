"""Incremental build: each rank keeps its network's kernels, and only changed ones are compiled.

Source: document M (incremental operator build of MindSpore); facts ``mindspore-incremental``.
Each kind of decision is a small policy class. All file operations go through
:class:`~pytest_ascendcache.reference.cache.fs.Fs`, at points named ``meta.*``.
"""
