"""Python's reader of TOML; on Python 3.10, which has none, the backport."""

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["tomllib"]
