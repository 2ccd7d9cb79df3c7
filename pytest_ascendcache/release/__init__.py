"""The release gate: what a model's release consists of, and what is wrong with its files.

This room reads ``release.toml`` and the files that it names. It compiles nothing.
"""
