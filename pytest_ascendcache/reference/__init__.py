"""The reference toolchain: a program of its own that compiles operators and caches kernels.

It is an independent reading of the same documents the contract reads. Nothing else imports
it but its own commands and the seeded defects of ``qualification``; the suite meets it only
through argv, environment and files.
"""
