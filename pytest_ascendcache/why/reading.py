"""Reading a command line: which kind of command it is, and what it names."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_ascendcache.release import command as atc
from pytest_ascendcache.release.file import Release
from pytest_ascendcache.toolchains.atc import find_program
from pytest_ascendcache.why.atc_command import AtcInterface
from pytest_ascendcache.why.package_command import PackageInterface
from pytest_ascendcache.why.request import CommandInterface, RequestError, UserRequest
from pytest_ascendcache.why.script_command import ScriptInterface, read_words


def read_request(
    words: Sequence[str], variables: Mapping[str, str], work: Path, cache: Path | None
) -> UserRequest:
    """Read a command line that is run in the directory ``work``. Raises ``RequestError``."""
    names = [each for each in words if not atc.ASSIGNMENT.fullmatch(each)]
    if not names or names[0].startswith("-"):
        raise RequestError("there is no command; write -- atc --model=... after the options.")
    given = dict(each.split("=", 1) for each in words[: len(words) - len(names)])
    environment = {**variables, **given}
    likely = Path(names[0]).name.replace("-", "_")
    interface: CommandInterface
    options: dict[str, str]
    is_atc = any(each.lstrip("-").startswith(("singleop", "model=")) for each in names)
    if "atc" in likely or is_atc:
        interface, options, environment = _atc(words, variables)
    elif "op_compiler" in likely:
        interface = PackageInterface(work)
        options = read_words(names[1:])
    else:
        interface = ScriptInterface(work)
        options = read_words(names[1:])
    paths = {**interface.file_options(options), **interface.directory_options(options)}
    options |= {
        key: os.path.normpath(work / value)
        for key, value in options.items()
        if value and (key in paths or interface.is_place(key))
    }
    for name, path in interface.file_options(options).items():
        if not Path(path).exists():
            raise RequestError(f"{interface.shown(name)}={path}: there is no such file.")
        if Path(path).is_file() and not os.access(path, os.R_OK):
            raise RequestError(f"{interface.shown(name)}={path} cannot be read by this user.")
    if environment.get(interface.variable):
        environment[interface.variable] = os.path.normpath(
            work / environment[interface.variable].strip()
        )
    is_script = isinstance(interface, ScriptInterface)
    program = find_program(names[0], names[0] if is_script else interface.program)
    request = UserRequest(interface, program, options, environment, work)
    expected = work / cache if cache is not None else request.consulted[0]
    if cache is not None and not expected.is_dir():
        raise RequestError(f"--cache={cache} is not a directory; name one that holds a cache.")
    if expected.is_dir() and not os.access(expected, os.R_OK | os.X_OK):
        raise RequestError(f"--cache={expected} cannot be read by this user.")
    return replace(request, cache=interface.root(expected).resolve())


def _atc(
    words: Sequence[str], variables: Mapping[str, str]
) -> tuple[CommandInterface, dict[str, str], dict[str, str]]:
    try:
        command = atc.parse_command(words, variables, "set it")
    except atc.CommandError as error:
        raise RequestError(f"the command cannot be read: {error}") from None
    if not command.options.get(atc.SINGLE_OP) and not command.options.get(atc.MODEL):
        raise RequestError("the command has neither --model nor --singleop; nothing is compiled.")
    return AtcInterface(), dict(command.options), {**variables, **command.environment}


def release_words(release: Release, command: Sequence[str]) -> list[str]:
    """The command line of a release, with absolute paths, and with the program of ``command`` if
    it names none."""
    options = {**release.options, atc.SOC: release.soc}
    if not options.get(atc.MODEL) and not options.get(atc.SINGLE_OP) and release.operator_files:
        options[atc.SINGLE_OP] = str(release.operator_files[0])
    if release.precision_file is not None and atc.PRECISION_FILE in options:
        options[atc.PRECISION_FILE] = str(release.precision_file)
    paths = {**AtcInterface().file_options(options), **AtcInterface().directory_options(options)}
    named = {**paths, **{key: options[key] for key in (atc.CACHE_DIR,) if options.get(key)}}
    options |= {key: str(release.place(value)) for key, value in named.items()}
    variables = [f"{key}={value}" for key, value in release.environment.items()]
    given = (each for each in command if not atc.ASSIGNMENT.fullmatch(each))
    program = release.toolchain or next(given, AtcInterface.program)
    return [*variables, program, *(f"--{key}={value}" for key, value in options.items())]


def other_place(request: UserRequest, directory: Path) -> UserRequest:
    """The same command with ``directory``, another prefix or another cache, in place of what it
    uses here. Raises ``RequestError`` if it uses nothing like it."""
    if not directory.is_dir():
        raise RequestError(
            f"--against-directory={directory} is not a directory; name another prefix or cache."
        )
    directory = directory.resolve()
    as_cache = replace(request.place, cache=request.interface.root(directory))
    if as_cache.entries:
        return replace(request, cache=as_cache.cache)
    prefix = next(filter(None, (_prefix(each, directory) for each in _paths(request))), None)
    if prefix is None:
        raise RequestError(
            f"--against-directory={directory} is like nothing that the command uses: neither its "
            "program nor an option nor a variable leads to files that are there too."
        )

    def moved(text: str) -> str:
        path = Path(text)
        inside = text.startswith("/") and path.is_relative_to(prefix)
        return str(directory / path.relative_to(prefix)) if inside else text

    def all_moved(values: Mapping[str, str]) -> dict[str, str]:
        return {
            key: os.pathsep.join(map(moved, value.split(os.pathsep)))
            for key, value in values.items()
        }

    there = replace(
        request,
        program=Path(moved(str(request.program))),
        options=all_moved(request.options),
        environment=all_moved(request.environment),
    )
    files = map(Path, request.interface.file_options(there.options).values())
    missing = [each for each in (there.program, *files) if not each.exists()]
    if missing:
        raise RequestError(f"--against-directory={directory}: there is no {missing[0]}.")
    root = request.interface.root(there.consulted[0])
    return replace(there, cache=root if root.is_dir() else request.cache)


def _paths(request: UserRequest) -> list[Path]:
    """What the command uses, in the order of what is likely another prefix or cache."""
    interface, environment = request.interface, request.environment
    options = [*interface.directory_options(request.options).values()]
    options += interface.file_options(request.options).values()
    named = [environment.get(each, "") for each in interface.packages]
    used = [*named, str(request.program), str(request.consulted[0]), *options]
    return [Path(each) for each in used if each]


def _prefix(path: Path, directory: Path) -> Path | None:
    """The directory of ``path`` that ``directory`` is another one of; itself if both hold a file of
    one name."""
    for above in path.parents[:-1]:
        if above != directory and (directory / path.relative_to(above)).exists():
            return above
    if path.is_dir() and path.resolve() != directory:
        names = {each.name for each in path.iterdir()} & {each.name for each in directory.iterdir()}
        return path if names else None
    return None
