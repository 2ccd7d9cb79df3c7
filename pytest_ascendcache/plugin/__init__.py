"""The face towards pytest: ``hooks`` is the entry point and imports the rest when needed."""

import pytest

# Here, because it has to be said before anything of the suite is imported.
pytest.register_assert_rewrite("pytest_ascendcache.conformance")
