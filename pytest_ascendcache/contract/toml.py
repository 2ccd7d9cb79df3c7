"""Python's TOML parser, or its backport on Python 3.10, which has none."""

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["tomllib"]
