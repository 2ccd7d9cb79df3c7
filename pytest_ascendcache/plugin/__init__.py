"""The pytest plugin: ``hooks`` is the entry point and imports other modules when it needs them."""

import pytest

# pytest rewrites assertions while it imports a module, so this must come before any import of it.
pytest.register_assert_rewrite("pytest_ascendcache.conformance")
