"""What the reference reads of its installation, however it is spelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.installation import InstallationPolicy

POLICY = InstallationPolicy()


@pytest.mark.parametrize(
    "text",
    [
        "Version=8.1\n",
        "Version=8.1",
        "\ufeffVersion=8.1\n",
        "  Version = 8.1 \r\n",
        "a=b\nVersion=8.1",
        'a=b\rversion="8.1"\r',
    ],
)
def test_a_version_is_the_same_however_it_is_written(text: str, tmp_path: Path) -> None:
    (tmp_path / "version.info").write_bytes(text.encode())
    assert POLICY.operators_version({"ASCEND_OPP_PATH": str(tmp_path)}) == "8.1"


@pytest.mark.parametrize("odd", ["{}\n", "{}\r", "{} ", "'{}'", "file:{}", "~{}"])
def test_a_misspelt_package_is_refused_and_is_no_other_version(odd: str, tmp_path: Path) -> None:
    with pytest.raises(AtcError, match="ASCEND_OPP_PATH"):
        POLICY.operators_version({"ASCEND_OPP_PATH": odd.format(tmp_path)})


@pytest.mark.parametrize("text", [b"", b"Version\n", b"Version=\n", "Version=8.1".encode("utf-16")])
def test_a_package_that_names_no_version_is_refused(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "version.info").write_bytes(text)
    with pytest.raises(AtcError, match=r"version\.info"):
        POLICY.operators_version({"ASCEND_OPP_PATH": str(tmp_path)})


def test_without_a_package_the_version_is_built_in(tmp_path: Path) -> None:
    assert POLICY.operators_version({}) == "built-in"
    assert POLICY.operators_version({"ASCEND_OPP_PATH": str(tmp_path)}) == "built-in"
