"""The reference's limits: their sources, valid values, and warnings about invalid ones."""

from __future__ import annotations

import pytest

from pytest_ascendcache.contract import CacheLimits, expected_limits
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.limits import LimitPolicy, Limits, parse_ini

SIZE, RATIO = "ASCEND_MAX_OP_CACHE_SIZE", "ASCEND_REMAIN_CACHE_SIZE_RATIO"
SECTION = "[op_compiler_cache]\n"


@pytest.mark.parametrize(
    ("text", "megabytes"),
    [
        ("-1", -1),
        ("1", 1),
        ("500", 500),
        ("0500", 500),
        (" \t500 ", 500),
        ("2147483647", 2147483647),
        ("2147483648", None),
        ("9" * 5000, None),
        ("0", None),
        ("-0", None),
        ("-2", None),
        ("+5", None),
        ("1.5", None),
        ("1e3", None),
        ("500MB", None),
        ("0x10", None),
        ("5 0", None),
        ("٥", None),
        ("--1", None),
        ("-", None),
        ("", None),
        ("abc", None),
    ],
)
def test_sizes(text, megabytes):
    assert LimitPolicy().size(text) == megabytes


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        ("1", 1),
        ("50", 50),
        ("100", 100),
        ("0", None),
        ("101", None),
        ("-1", None),
        ("50%", None),
        ("50.0", None),
        ("", None),
        ("half", None),
        ("9" * 30, None),
    ],
)
def test_ratios(text, percent):
    assert LimitPolicy().ratio(text) == percent


@pytest.mark.parametrize(
    ("text", "values", "stray"),
    [
        ("", {}, ""),
        (SECTION, {}, ""),
        (SECTION + "max_op_cache_size=5\n", {"max_op_cache_size": "5"}, ""),
        (
            "# c\r\n[op_compiler_cache]\r\n max_op_cache_size = 5\r\n"
            "remain_cache_size_ratio\t=\t80 \r\n",
            {"max_op_cache_size": "5", "remain_cache_size_ratio": "80"},
            "",
        ),
        (
            SECTION + "max_op_cache_size=5\n" + SECTION + "max_op_cache_size=6",
            {"max_op_cache_size": "6"},
            "",
        ),
        (SECTION + "#max_op_cache_size=5\n;max_op_cache_size=6", {}, ""),
        (SECTION + "max_op_cache_size\nadk_version=7\nMAX_OP_CACHE_SIZE=5", {}, ""),
        ("max_op_cache_size=5\n" + SECTION, {}, "max_op_cache_size"),
        ("[aaa]\nremain_cache_size_ratio=5\n", {}, "remain_cache_size_ratio"),
        (SECTION + "[zzz]\nmax_op_cache_size=5\n", {}, "max_op_cache_size"),
        ("[op_compiler_cache] # mine\nmax_op_cache_size=", {"max_op_cache_size": ""}, ""),
        ("[" * 9, {}, ""),
    ],
)
def test_parsing(text, values, stray):
    assert parse_ini(text) == (values, stray)


@pytest.fixture
def find(tmp_path):
    """A function that finds limits and warnings, given the texts of both ``op_cache.ini`` files.

    The file at the document's path comes first.
    """

    def find(*texts, **environ):
        kernel_cache = tmp_path / "kernel_cache"
        kernel_cache.mkdir()
        for directory, text in zip((tmp_path, kernel_cache), texts, strict=False):
            if text is not None:
                (directory / "op_cache.ini").write_bytes(
                    text if isinstance(text, bytes) else text.encode()
                )
        return LimitPolicy().find(Fs(), tmp_path, kernel_cache, environ)

    return find


def ini(size=None, ratio=None):
    lines = [f"max_op_cache_size={size}\n"] * (size is not None)
    return SECTION + "".join(lines + [f"remain_cache_size_ratio={ratio}\n"] * (ratio is not None))


@pytest.mark.parametrize(
    ("files", "environ", "expected", "warnings"),
    [
        ((), {}, (500, 50), 0),
        ((SECTION,), {}, (500, 50), 0),
        ((ini(8, 80),), {}, (8, 80), 0),
        ((ini(8, 80),), {SIZE: "9", RATIO: "90"}, (8, 80), 0),
        ((ini(8, 80),), {SIZE: "junk"}, (8, 80), 0),
        ((ini(-1, 50),), {SIZE: "9"}, (-1, 50), 0),
        ((ini(-1),), {}, (500, 50), 1),
        ((ini(8),), {}, (500, 50), 1),
        ((ini(8),), {SIZE: "9"}, (9, 50), 1),
        ((ini(None, 80),), {SIZE: "9"}, (9, 50), 1),
        ((ini(8, 0),), {RATIO: "90"}, (500, 90), 1),
        ((ini(0, 80),), {SIZE: "0", RATIO: "0"}, (500, 50), 3),
        ((None, ini(7, 70)), {SIZE: "9"}, (7, 70), 0),
        ((SECTION, ini(7, 70)), {}, (7, 70), 0),
        ((ini(8, 80), ini(7, 70)), {}, (8, 80), 0),
        ((ini(8), ini(7, 70)), {}, (7, 70), 1),
        ((ini(8), ini(None, 70)), {}, (500, 50), 2),
        ((b"\xef\xbb\xbf" + ini(8, 80).encode(),), {}, (8, 80), 0),
        ((ini(8, 80).replace("\n", "\r\n"),), {}, (8, 80), 0),
        ((b"\xff\xfe\0junk",), {}, (500, 50), 0),
        (("max_op_cache_size=1\nremain_cache_size_ratio=1",), {}, (500, 50), 1),
        ((), {SIZE: ""}, (500, 50), 1),
        ((), {SIZE: "-1", RATIO: "x"}, (-1, 50), 1),
        ((), {RATIO: "20"}, (500, 20), 0),
    ],
)
def test_precedence(find, files, environ, expected, warnings):
    found = find(*files, **environ)
    assert found.limits == Limits(*expected)
    assert len(found.warnings) == warnings, found.warnings
    for each in found.warnings:
        assert f"{expected[0]} MB and {expected[1]} %" in each


def test_warnings_name_the_value_and_where_it_came_from(find):
    warnings = find(ini("abc", 101), **{SIZE: "1.5"}).warnings
    assert "[abc] for max_op_cache_size" in warnings[0]
    assert "[101] for remain_cache_size_ratio" in warnings[0]
    assert "op_cache.ini]" in warnings[0]
    assert warnings[1].startswith(f"W40012: value [1.5] for environment variable {SIZE} is invalid")


@pytest.mark.parametrize("what", ["directory", "link"])
def test_a_file_that_is_none_does_not_count(tmp_path, what):
    path = tmp_path / "op_cache.ini"
    if what == "directory":
        path.mkdir()
    else:
        (tmp_path / "target").write_text(ini(8, 80))
        path.symlink_to(tmp_path / "target")
    result = LimitPolicy().find(Fs(), tmp_path, tmp_path / "kernel_cache", {})
    assert result.limits == Limits(500, 50)
    assert "cannot be read" in result.warnings[0]


@pytest.mark.parametrize(
    "values", [(8, 80), (8, None), (None, 80), (0, 80), (8, 0), (-1, 1), ("x", 1)]
)
@pytest.mark.parametrize("environ", [{}, {SIZE: "9"}, {RATIO: "20"}, {SIZE: "-1", RATIO: "101"}])
def test_both_readings_of_the_document_agree(find, values, environ):
    keys = ("max_op_cache_size", "remain_cache_size_ratio")
    options = {
        key: str(value) for key, value in zip(keys, values, strict=True) if value is not None
    }
    limits = find(ini(*values), **environ).limits
    assert expected_limits(options, environ) == CacheLimits(limits.megabytes, limits.ratio)
