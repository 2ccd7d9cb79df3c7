"""Tests of the project itself."""

pytest_plugins = ["pytester"]
