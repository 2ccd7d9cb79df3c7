"""The face towards pytest: ``hooks`` is the entry point and imports the rest when needed."""

import pytest

# Before anything imports the suite: what is imported can no longer be rewritten.
pytest.register_assert_rewrite("pytest_ascendcache.conformance")
