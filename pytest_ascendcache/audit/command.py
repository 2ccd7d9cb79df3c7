"""``ascendcache-audit DIR...``: audits directories; nobody has to know pytest for it."""

from __future__ import annotations

import argparse
import errno
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_ascendcache.audit.page import page, table
from pytest_ascendcache.audit.result import Audit, answer, as_dict
from pytest_ascendcache.audit.scan import audit
from pytest_ascendcache.audit.walk import WalkWatch, holds_a_cache
from pytest_ascendcache.contract import Edition, NoEditionError, Verdict
from pytest_ascendcache.contract.editions import named
from pytest_ascendcache.files import write_output
from pytest_ascendcache.language import Language, add_language_option, text, translated
from pytest_ascendcache.words.layout import WIDTH

_PROGRAM = "ascendcache-audit"
_NARROWEST, _WIDEST = 40, 120


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. Returns 0 if nothing is broken, 1 if something is or nothing can be said of a
    directory, and 2 for an argument that is wrong."""
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        description="Judges existing caches of CANN, MindSpore and TorchAir. It only reads.",
        epilog="status: 0 nothing is broken, 1 something is or cannot be decided, 2 usage",
        allow_abbrev=False,
    )
    parser.add_argument("directories", nargs="+", metavar="DIR")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all of it as JSON")
    parser.add_argument(
        "--seconds", type=float, metavar="N", help="stop after N seconds for each directory"
    )
    add_language_option(parser)
    parser.add_argument("--edition", metavar="X.Y", help="the release of CANN, such as 8.0")
    options = parser.parse_args(argv)
    language = options.language
    try:
        directories = [_checked(each) for each in dict.fromkeys(options.directories)]
        edition = _edition(options.edition)
        if options.seconds is not None and not 0 < options.seconds < float("inf"):
            raise ValueError(f"--seconds={options.seconds:g} is no time; write a number above 0.")
        _check_output(options.json, directories)
    except ValueError as error:
        print(f"{_PROGRAM}: {translated(str(error), language)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # while caches were looked for
        return 130
    results = [_audited(each, options.seconds, edition, language) for each in directories]
    try:
        _print(results, language)
    except OSError as error:
        reason = f"the answer cannot be printed ({error.strerror})."
        print(f"{_PROGRAM}: {translated(reason, language)}", file=sys.stderr)
        return 2
    if options.json is not None:
        content = json.dumps([as_dict(each) for each in results], indent=1, ensure_ascii=False)
        try:
            write_output(options.json, content + "\n")
        except OSError as error:
            reason = f"--json={options.json} cannot be written ({error.strerror})."
            print(f"{_PROGRAM}: {translated(reason, language)}", file=sys.stderr)
            return 2
    worst = {answer(each) for each in results}
    return int(bool(worst & {Verdict.FAIL, Verdict.UNDECIDED}))


def _checked(text: str) -> Path:
    if not text:
        raise ValueError("a directory is empty; name one that holds a cache: is a variable unset?")
    directory = Path(text)
    if not directory.is_dir():
        what = "is not a directory" if directory.exists() else "does not exist"
        raise ValueError(f"{directory} {what}; name a directory that holds a cache.")
    try:
        known = holds_a_cache(directory)
    except OSError as error:
        raise ValueError(
            f"{directory} cannot be read ({error.strerror}); audit it as a user who may, or audit "
            "a copy."
        ) from None
    if not known:
        raise ValueError(
            f"{directory} holds no cache of CANN, MindSpore or TorchAir; name one, or a directory "
            "above it."
        )
    return directory.absolute()


def _edition(name: str | None) -> Edition | None:
    try:
        return None if name is None else named(name)
    except NoEditionError as error:
        raise ValueError(f"--edition={name}: {error}") from None


def _check_output(path: Path | None, directories: Sequence[Path]) -> None:
    if path is None:
        return
    if not path.absolute().parent.is_dir():
        raise ValueError(f"--json={path}: there is no directory {path.absolute().parent}.")
    for directory in directories:
        if path.resolve().is_relative_to(directory.resolve()):
            raise ValueError(
                f"--json={path} would be written in {directory}, which is only read; name another "
                "place."
            )


def _audited(
    directory: Path, seconds: float | None, edition: Edition | None, language: Language
) -> Audit:
    shown = sys.stderr.isatty()

    def progress(names: int) -> None:
        line = text("audit_progress", language, names=names, directory=directory)
        print(f"\r{line}", end="", file=sys.stderr, flush=True)

    result = audit(
        directory, edition=edition, watch=WalkWatch(seconds, progress if shown else None)
    )
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return result


def _print(results: Sequence[Audit], language: Language) -> None:
    width = min(max(shutil.get_terminal_size((WIDTH, 24)).columns, _NARROWEST), _WIDEST)
    blocks = [page(each, language, width) for each in results]
    if len(results) > 1:
        blocks.append(table(results, language, width))
    shown = "\n\n".join("\n".join(block) for block in blocks)
    if sys.stdout is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    encoding = sys.stdout.encoding or "utf-8"
    try:
        print(shown.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError as error:
        # What is left in the buffer is written when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # a reader, such as head, has seen enough
            raise


if __name__ == "__main__":
    sys.exit(main())
