"""The reference toolchain: a separate program that compiles operators and caches kernels.

It reads the same documents as ``contract``, independently. Only its commands and the seeded defects
of ``qualification`` import it; the suite uses it only through argv, environment and files.
"""
