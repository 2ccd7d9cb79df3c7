"""The disk cache of the reference toolchain: CANN's layout without CANN's faults.

Each decision is a method of a small policy class: where the directory is, what the key contains,
which entries may be reused, how an entry is published, what is purged and what ages. All file
operations go through :class:`~pytest_ascendcache.reference.cache.fs.Fs`.
"""
