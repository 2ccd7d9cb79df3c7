"""The disk cache of the reference toolchain: CANN's layout without CANN's faults.

Each rule of behaviour is a method of a small policy class: where the directory is, what is in
the key, what may be served, how an entry is published, what is purged. All file operations go
through :class:`~pytest_ascendcache.reference.cache.fs.Fs`.
"""
