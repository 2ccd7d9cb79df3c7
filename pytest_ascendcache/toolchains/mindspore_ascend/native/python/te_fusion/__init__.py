"""A stand-in for CANN's operator compiler: it makes kernels that run on this machine's processor.

What it answers about formats, fusion and support is its own and never a finding.
"""
