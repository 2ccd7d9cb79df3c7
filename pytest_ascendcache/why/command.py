"""``ascendcache-why``: tells why a run of atc did not take its kernels from the cache."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.files import check_output, write_output
from pytest_ascendcache.language import Language, add_language_option, text, translated
from pytest_ascendcache.processes.launch import ToolchainError
from pytest_ascendcache.release.file import ReleaseFileError, read_release
from pytest_ascendcache.why.lab import Lab
from pytest_ascendcache.why.page import as_json, page
from pytest_ascendcache.why.reading import other_place, read_request, release_words
from pytest_ascendcache.why.record import differences, read_record, record_text
from pytest_ascendcache.why.request import RequestError, SingleChange, UserRequest
from pytest_ascendcache.why.study import MissAnswer, study

_PROGRAM = "ascendcache-why"
_BUDGET = 40


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. Returns 0 if every miss is explained or there is none, 1 if something cannot be
    told, and 2 for an argument or a command that is wrong."""
    words = [*(sys.argv[1:] if argv is None else argv)]
    split = words.index("--") if "--" in words else len(words)
    options, command = _parser().parse_args(words[:split]), words[split + 1 :]
    language = options.language
    try:
        _check(options)
        work, released = Path.cwd(), []
        if options.release is not None:
            release = read_release(options.release, os.environ)
            released = release_words(release, command)
            if not command:
                command, work = released, release.path.parent
                options.cache = options.cache or next(iter(release.caches), None)
        request = read_request(command, os.environ, work, options.cache)
        if options.record is not None:
            write_output(options.record, record_text(request))
            print(text("why_recorded", language, path=options.record))
            return 0
        recorded: list[SingleChange] = []
        if options.against is not None:
            record = read_record(options.against)
            if options.cache is None and Path(record["cache"]).is_dir():
                request = replace(request, cache=Path(record["cache"]))
            recorded = differences(request, record)
        elif (there := _there(request, options, released, command)) is not None:
            if options.cache is None:
                request = replace(request, cache=there.cache)
            recorded = differences(request, there)
        return _studied(request, recorded, options, language)
    except (RequestError, ReleaseFileError, ToolchainError) as error:
        print(f"{_PROGRAM}: {translated(str(error), language)}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # nobody reads the answer to its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        name = error.filename or options.record or options.report
        print(f"{_PROGRAM}: {name}: {error.strerror}.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        usage=f"{_PROGRAM} [options] -- COMMAND",
        description="Tells why a run of atc, of a MindSpore script or of op_compiler does not take "
        "its kernels from the cache. It runs the command on copies of the cache, which itself is "
        "only read.",
        epilog="status: 0 explained or nothing is missed, 1 something cannot be told, 2 usage",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--cache",
        metavar="DIR",
        type=Path,
        help="where the kernels should be (default: where the command looks)",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--record", metavar="FILE", type=Path, help="write down this place, where it hits"
    )
    which.add_argument(
        "--against", metavar="FILE", type=Path, help="compare with the place of a record"
    )
    which.add_argument(
        "--against-directory",
        metavar="DIR",
        type=Path,
        help="compare with another prefix or another cache on this machine",
    )
    which.add_argument(
        "--release",
        metavar="FILE",
        type=Path,
        help="compare with the settings of a release, or try its own command if there is no other",
    )
    parser.add_argument("--report", metavar="FILE", type=Path, help="write all of it as JSON")
    parser.add_argument(
        "--budget",
        metavar="N",
        type=int,
        default=_BUDGET,
        help=f"the most runs (default: {_BUDGET})",
    )
    parser.add_argument(
        "--seconds",
        metavar="N",
        type=float,
        default=600.0,
        help="the most that one run may take (default: 600)",
    )
    add_language_option(parser)
    return parser


def _check(options: argparse.Namespace) -> None:
    if options.budget < 1:
        raise RequestError(f"--budget={options.budget} is no number of runs; write 1 or more.")
    if not 0 < options.seconds < float("inf"):
        raise RequestError(f"--seconds={options.seconds:g} is no time; write a number above 0.")
    for name in ("record", "report"):
        if (path := getattr(options, name)) is not None:
            try:
                check_output(path)
            except OSError as error:
                raise RequestError(f"--{name}={path}: {error.strerror}.") from None


def _there(
    request: UserRequest, options: argparse.Namespace, released: list[str], command: list[str]
) -> UserRequest | None:
    """The other place, if it is at hand."""
    if options.against_directory is not None:
        return other_place(request, Path.cwd() / options.against_directory)
    if released and command != released:
        return read_request(released, os.environ, options.release.absolute().parent, options.cache)
    return None


def _studied(
    request: UserRequest,
    recorded: Sequence[SingleChange],
    options: argparse.Namespace,
    language: Language,
) -> int:
    def announce(run: int, most: int) -> None:
        if sys.stderr.isatty():
            told = text("why_run", language, run=run, most=most)
            print(f"\r{told}", end="", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="ascendcache-why-") as name:
        lab = Lab(request, Path(name), options.budget, options.seconds, announce)
        found = study(request, lab, recorded)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    shown = "\n".join(page(found, language))
    encoding = sys.stdout.encoding or "utf-8"
    print(shown.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    if options.report is not None:
        write_output(options.report, as_json(found))
    return int(found.answer not in (MissAnswer.SERVED, MissAnswer.EXPLAINED))
