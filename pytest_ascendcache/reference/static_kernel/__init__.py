"""Static kernels: one binary for each shape, packages of them, and what finds them at run time.

``op_compiler`` is the command, ``installer`` what a package carries with it, ``selection`` the
reader. What a package carries needs nothing but Python's own library: ``installer``, ``registry``,
``index``, ``archive`` and ``cache.fs``.
"""
