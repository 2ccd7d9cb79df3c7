"""Files that users name: writing replaces only regular files, and reading never blocks forever."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_ascendcache.files import (
    append_output,
    copy_tree,
    open_log,
    open_output,
    read_input,
    write_output,
)

OLD = "what was there"


def _node(path: Path) -> None:
    """Make a null device that only this test uses."""
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        path.chmod(0o666)
        path.open("wb").close()
    except OSError as error:  # ordinary users may not make devices, and some mounts refuse them
        pytest.skip(f"no device node can be made here: {error.strerror}")


def _socket(path: Path) -> None:
    os.mknod(path, 0o666 | stat.S_IFSOCK)


NOT_FILES: dict[str, Callable[[Path], None]] = {
    "a FIFO": os.mkfifo,
    "a device": _node,
    "a socket": _socket,
    "a directory": Path.mkdir,
    "a link to a FIFO": lambda path: (
        os.mkfifo(path.with_name("fifo")),
        path.symlink_to("fifo"),
    )[1],
    "a link to itself": lambda path: path.symlink_to(path.name),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A path that does not exist yet, in a directory of its own."""
    (tmp_path / "place").mkdir()
    return tmp_path / "place/file"


def kept(place: Path) -> list[tuple[str, int]]:
    """Return the names and types of the directory's entries."""
    return sorted((each.name, stat.S_IFMT(each.lstat().st_mode)) for each in place.parent.iterdir())


# --- writing --------------------------------------------------------------------------------


def test_a_new_file_has_the_mode_any_program_would_give_it(place: Path) -> None:
    write_output(place, "text")
    umask = os.umask(0o22)
    os.umask(umask)
    assert (place.read_text(), stat.S_IMODE(place.stat().st_mode)) == ("text", 0o666 & ~umask)
    assert len(kept(place)) == 1


def test_an_old_file_is_replaced_and_keeps_its_mode(place: Path) -> None:
    place.write_text(OLD)
    place.chmod(0o640)
    inode = place.stat().st_ino
    write_output(place, b"new")
    assert (place.read_text(), stat.S_IMODE(place.stat().st_mode)) == ("new", 0o640)
    assert place.stat().st_ino != inode
    assert len(kept(place)) == 1


@pytest.mark.parametrize("exists", [True, False])
def test_of_a_link_the_target_is_replaced(place: Path, tmp_path: Path, exists: bool) -> None:
    target = tmp_path / "real.json"
    if exists:
        target.write_text(OLD)
    place.symlink_to(Path("../real.json"))
    write_output(place, "new")
    assert place.is_symlink()
    assert target.read_text() == "new"


def test_names_may_be_as_long_as_names_can_be(place: Path) -> None:
    for name in ("x" * 255, "算" * 85):
        write_output(place.with_name(name), name)
        assert place.with_name(name).read_text() == name


@pytest.mark.parametrize("kind", NOT_FILES)
def test_what_is_no_file_is_never_renamed_over(place: Path, kind: str) -> None:
    NOT_FILES[kind](place)
    before = kept(place)
    writes: list[Callable[[], object]] = [
        lambda: write_output(place, "new"),
        lambda: append_output(place, "new"),
        lambda: open_log(place).close(),
    ]
    for write in writes:
        with contextlib.suppress(OSError):
            write()
        assert kept(place) == before


def test_a_device_is_written(place: Path) -> None:
    _node(place)
    write_output(place, "new")


def test_a_fifo_that_somebody_reads_is_written(place: Path) -> None:
    os.mkfifo(place)
    read = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(read, True)
    parts: list[bytes] = []

    def reader() -> None:
        with os.fdopen(read, "rb") as file:
            parts.append(file.read())

    thread = threading.Thread(target=reader)
    write = os.open(place, os.O_WRONLY)  # the reader waits until everything is written
    thread.start()
    write_output(place, "x" * 200_000)
    os.close(write)
    thread.join()
    assert parts == [b"x" * 200_000]


def test_a_fifo_without_a_reader_is_one_sentence_and_no_waiting(place: Path) -> None:
    os.mkfifo(place)
    with pytest.raises(OSError, match="no process reads the FIFO"):
        write_output(place, "new")


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
@pytest.mark.parametrize("to", ["file", "pipe"])
def test_standard_output_keeps_its_order(tmp_path: Path, name: str, to: str) -> None:
    (tmp_path / "link").symlink_to("/dev/stdout")
    code = (
        "from pathlib import Path\nfrom pytest_ascendcache.files import write_output\n"
        f"print('one')\nwrite_output(Path({name!r}), 'two\\n')\nprint('three')\n"
    )
    command = [sys.executable, "-c", code]
    if to == "pipe":
        text = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, check=True).stdout
    else:
        with (tmp_path / "output").open("wb") as output:
            subprocess.run(command, cwd=tmp_path, stdout=output, check=True)
        text = (tmp_path / "output").read_bytes()
    assert text == b"one\ntwo\nthree\n"


class _Interrupted(BaseException):
    pass


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), _Interrupted()])
def test_an_end_in_the_middle_leaves_the_old_file(place: Path, error: BaseException) -> None:
    place.write_text(OLD)

    def end_in_the_middle() -> None:
        with open_output(place) as file:
            file.write(b"half of it")
            raise error

    with pytest.raises(type(error)):
        end_in_the_middle()
    assert place.read_text() == OLD
    assert len(kept(place)) == 1


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Limit the size of files to one page, like a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_disk")
def test_a_full_disk_leaves_the_old_file(place: Path) -> None:
    place.write_text(OLD)
    with pytest.raises(OSError, match="File too large"):
        write_output(place, "x" * 100_000)
    assert place.read_text() == OLD
    assert len(kept(place)) == 1


def test_a_log_takes_the_place_of_an_older_one_when_it_is_open(place: Path) -> None:
    place.write_text(OLD)
    with open_log(place) as log:
        log.write(b"line\n")
        log.flush()
        assert place.read_text() == "line\n"
    assert len(kept(place)) == 1


def test_a_read_only_directory_is_one_sentence(place: Path) -> None:
    place.write_text(OLD)
    place.parent.chmod(0o555)
    if os.access(place.parent, os.W_OK):
        pytest.skip("root writes into any directory")
    with pytest.raises(OSError, match="cannot be written; name another"):
        write_output(place, "new")


# --- reading --------------------------------------------------------------------------------


def test_a_file_and_what_a_link_leads_to_are_read(place: Path) -> None:
    place.write_bytes(b"content")
    place.with_name("link").symlink_to("file")
    assert read_input(place) == read_input(place.with_name("link")) == b"content"


@pytest.mark.parametrize("kind", NOT_FILES)
def test_what_is_no_file_is_not_read(place: Path, kind: str) -> None:
    NOT_FILES[kind](place)
    with pytest.raises(OSError, match=r"it is a|Is a directory|symbolic links"):
        read_input(place)


def test_a_file_that_is_too_large_is_not_read(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(90 << 30)
    with pytest.raises(OSError, match="it is larger than 256 MiB"):
        read_input(place)


# --- through options and commands -----------------------------------------------------------

OUTPUTS = ["--ascend-report", "--ascend-html", "--ascend-audit-fix"]


def _cache(path: Path) -> str:
    entry = path / "cache/kernel_cache/Ascend910B1" / f"te_exp_{'0' * 64}.json"
    entry.parent.mkdir(parents=True)
    entry.touch()
    return f"--ascend-audit={path / 'cache'}"


@pytest.mark.parametrize("kind", ["a FIFO", "a device", "a socket", "a directory"])
def test_no_option_renames_over_what_is_no_file(pytester: pytest.Pytester, kind: str) -> None:
    audited = _cache(pytester.path)
    for option in OUTPUTS:
        place = pytester.path / f"place{option}/file"
        place.parent.mkdir()
        NOT_FILES[kind](place)
        before = kept(place)
        result = pytester.runpytest_subprocess(
            *("-p", "no:cacheprovider", "-q", audited, "--ascend-rule=audit/whole-entries"),
            f"{option}={place}",
        )
        assert kept(place) == before
        if kind in ("a socket", "a directory"):
            assert result.ret == pytest.ExitCode.USAGE_ERROR
            result.stderr.fnmatch_lines([f"ERROR: {option}=*: it is {kind}; name a file*"])
        elif kind == "a FIFO":
            result.stdout.fnmatch_lines([f"ERROR: {option}=*no process reads the FIFO."])


def test_a_report_on_standard_output(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(
        *("-p", "no:cacheprovider", _cache(pytester.path), "--ascend-report=/dev/stdout")
    )
    assert any('"schema"' in line for line in result.outlines)


def test_a_script_of_ones_own_is_not_replaced_by_a_plan(pytester: pytest.Pytester) -> None:
    arguments = ("-p", "no:cacheprovider", _cache(pytester.path), "--ascend-audit-fix=plan.sh")
    plan = pytester.path / "plan.sh"
    plan.write_text("#!/bin/sh\nmake\n")
    result = pytester.runpytest_subprocess(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --ascend-audit-fix=*plan.sh exists and is not a removal *"]
    )
    assert plan.read_text() == "#!/bin/sh\nmake\n"
    plan.unlink()
    for _ in range(2):  # a newer plan replaces the older one
        result = pytester.runpytest_subprocess(*arguments)
        assert result.ret != pytest.ExitCode.USAGE_ERROR
        assert plan.read_text().startswith("#!/bin/sh\n# Removals suggested by pytest")


def test_the_summary_of_a_job_is_added_to(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = pytester.path / "summary.md"
    summary.write_text(OLD + "\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    pytester.runpytest_subprocess("-p", "no:cacheprovider", _cache(pytester.path))
    assert summary.read_text().startswith(OLD + "\n")
    assert len(summary.read_text()) > len(OLD) + 1


def test_a_directory_is_copied_without_what_is_no_file(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "below").mkdir(parents=True)
    (source / "below" / "file").write_bytes(b"content")
    (source / "link").symlink_to("nowhere")
    os.mkfifo(source / "below" / "fifo")
    copy_tree(source, tmp_path / "copy")
    assert {path.name for path in (tmp_path / "copy").rglob("*")} == {"below", "file", "link"}
