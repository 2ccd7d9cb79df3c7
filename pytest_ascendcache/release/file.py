"""``release.toml``: what a model's release consists of.

Reading refuses unknown keys and wrong values; the suite's checks judge the release itself.
Relative paths count from the directory of the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.toml import tomllib
from pytest_ascendcache.files import read_text
from pytest_ascendcache.operators import OperatorSpec, SingleOpError, read_single_op
from pytest_ascendcache.operators.singleop import parse_single_op
from pytest_ascendcache.release import command as atc
from pytest_ascendcache.release.values import content_fault, value_faults
from pytest_ascendcache.words import instead, nearest

CUSTOM_OPP, OPP, TUNE_BANK = "ASCEND_CUSTOM_OPP_PATH", "ASCEND_OPP_PATH", "TUNE_BANK_PATH"
CACHE_PATH = "ASCEND_CACHE_PATH"

KERNEL_OPTIONS = (
    *(atc.SELECT_MODE, atc.MODE_TYPES, atc.PRECISION_FILE, atc.OP_BANK, atc.MODEL_BANK),
    *("precision_mode", "precision_mode_v2", "deterministic", "deterministic_level"),
    *("aicore_num", "allow_hf32", "jit_compile"),
)
"""Options that change kernels and that ATC also accepts for single operators."""

_KERNEL_ENVIRONMENT = (OPP, CUSTOM_OPP, TUNE_BANK)
"""Variables that change kernels. Those of caching and debugging are judged, not passed on."""

_FILES = (atc.PRECISION_FILE, atc.OP_BANK, atc.MODEL_BANK)

_KEYS = (
    *("name", "toolchain", "soc", "cards", "atc", "options", "other_options", "environment"),
    *("operators", "precision_file", "knowledge_base", "caches", "manifest"),
    *("inputs", "tolerance"),
)

DEFAULT_TOLERANCE = 0.05
"""How far outputs may be from those of a float32 run, as a share of the largest output."""

_MOST_CARDS = 65_536
"""More cards than any one job runs on: a larger number is a typing error."""


class ReleaseFileError(ValueError):
    """A release file cannot be used: one sentence with the file, the key and the value."""


@dataclass(frozen=True)
class Release:
    """One release, as its file describes it. All paths are absolute.

    ``toolchain`` is the name or path of an ATC-compatible command, or empty. ``options`` are ATC's
    by name without dashes. ``operators`` are compiled one by one to see which kernels they get.
    ``precision_file`` is the one that the command loads or, where that is not here, ``kept_file``,
    which is kept with the release. ``knowledge_base`` has the files or directories with tuning
    results, ``caches`` are directories that are released too, and ``cards`` is the number of
    devices. ``inputs`` (.npz) are sample inputs of the model; its outputs may be off from a float32
    run by ``tolerance``, a share of the largest output. ``twice`` has the former
    values of options that the command gives twice.
    """

    path: Path
    name: str
    soc: str
    options: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)
    operators: tuple[OperatorSpec, ...] = ()
    precision_file: Path | None = None
    kept_file: Path | None = None
    knowledge_base: tuple[Path, ...] = ()
    caches: tuple[Path, ...] = ()
    cards: int = 1
    manifest: Path | None = None
    toolchain: str = ""
    inputs: Path | None = None
    tolerance: float = DEFAULT_TOLERANCE
    operator_files: tuple[Path, ...] = ()
    twice: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> list[Path]:
        """The files and directories that the release names, some of which may not exist."""
        own = (self.precision_file, self.kept_file, self.manifest, self.inputs)
        options = map(self.place, filter(None, self.options.values()))
        return [*filter(None, own), *self.operator_files, *self.knowledge_base, *options]

    def place(self, text: str) -> Path:
        """Make a path absolute; ``..`` is resolved, links are not."""
        return _placed(self.path, text)

    def names_file(self, option: str) -> bool:
        """Return whether an option names a file that ATC reads: by what it is, or because there is
        one of that name."""
        value = self.options.get(option, "")
        known = option in (*atc.INPUT_FILES, atc.DEBUG_CONFIG)
        looks_so = os.sep in value or "." in value
        return bool(value) and (known or (looks_so and self.place(value).is_file()))

    @property
    def model(self) -> Path | None:
        """The model that the release's command converts, if it converts one."""
        model = self.options.get(atc.MODEL, "")
        return self.place(model) if model else None

    @property
    def conversion_options(self) -> dict[str, str]:
        """The options to convert the model with: all but those of output, cache and operators."""
        left_out = (atc.OUTPUT, atc.CACHE_DIR, atc.CACHE_MODE, atc.SINGLE_OP)
        options = {key: value for key, value in self.options.items() if key not in left_out}
        for key, value in options.items():
            is_path = key in _FILES or (os.sep in value and self.place(value).exists())
            if value and (is_path or self.names_file(key)):
                options[key] = str(self.place(value))
        return {atc.SOC: self.soc, **options, **self.kernel_options}

    @property
    def conversion_environment(self) -> dict[str, str]:
        """The variables to convert the model with: all but that of the cache's place."""
        kept = {key: value for key, value in self.environment.items() if key != CACHE_PATH}
        return {**kept, **self.kernel_environment}

    @property
    def kernel_options(self) -> dict[str, str]:
        """The options that kernels depend on."""
        options = {key: self.options[key] for key in KERNEL_OPTIONS if self.options.get(key)}
        options |= {key: str(self.place(options[key])) for key in _FILES if key in options}
        if self.precision_file is not None and atc.PRECISION_FILE in options:
            options[atc.PRECISION_FILE] = str(self.precision_file)
        return options

    @property
    def kernel_environment(self) -> dict[str, str]:
        """The variables that kernels depend on."""
        return {
            key: os.pathsep.join(
                str(self.place(each)) for each in self.environment[key].split(os.pathsep) if each
            )
            for key in _KERNEL_ENVIRONMENT
            if self.environment.get(key)
        }


def _placed(file: Path, text: str) -> Path:
    return Path(os.path.abspath(file.parent / text))  # noqa: PTH100 - links are to stay


def read_release(path: Path, variables: Mapping[str, str]) -> Release:
    """Read a release file. ``variables`` replace ``$NAME`` in the command and the tables. Raises
    ``ReleaseFileError`` for a file that cannot be read, an unknown key or a wrong value."""
    path = path.absolute()
    try:
        content = tomllib.loads(read_text(path, "utf-8-sig"))
    except UnicodeDecodeError:
        raise ReleaseFileError(f"{path} is not TOML: save it as UTF-8.") from None
    except RecursionError:
        raise ReleaseFileError(f"{path} is not TOML that can be read: it is too deep.") from None
    except tomllib.TOMLDecodeError as error:
        raise ReleaseFileError(f"{path} is not TOML: {error}.") from None
    except OSError as error:
        raise ReleaseFileError(
            f"{path} cannot be read ({error.strerror}); ascendcache-release-init writes one to "
            "begin with."
        ) from None
    try:
        return _Reader(path, content, variables).release()
    except (atc.CommandError, _Wrong) as error:
        raise ReleaseFileError(f"{path}: {error}") from None


class _Wrong(ValueError):
    """Says what is wrong with one value."""


@dataclass(frozen=True)
class _Reader:
    path: Path
    content: Mapping[str, Any]
    variables: Mapping[str, str]

    def release(self) -> Release:
        for key in self.content:
            if key not in _KEYS:
                hint = instead(key, _KEYS, f"the keys are {', '.join(_KEYS)}.")
                raise _Wrong(f"the key '{key}' is unknown; {hint}")
        options, environment, twice = self._command()
        precision = self._path("precision_file", "a release has one precision file.")
        loaded = next(iter(self._named(options, atc.PRECISION_FILE)), None)
        banks = self._named(options, atc.OP_BANK, atc.MODEL_BANK)
        listed: Any = self.content.get("operators")
        is_table = isinstance(listed, list) and any(isinstance(each, dict) for each in listed)
        written_here = listed if is_table else []
        operator_files = () if written_here else self._paths("operators")
        if not written_here and not operator_files:
            operator_files = self._named(options, atc.SINGLE_OP)
        return Release(
            path=self.path,
            name=self._text("name") or self.path.parent.name or "release",
            soc=self._soc(options),
            options=options,
            environment=environment,
            operators=self._operators(operator_files, written_here),
            operator_files=operator_files,
            precision_file=loaded if loaded and loaded.is_file() else precision or loaded,
            kept_file=precision,
            knowledge_base=self._paths("knowledge_base")
            or banks
            or self._named(environment, TUNE_BANK),
            caches=self._paths("caches"),
            cards=self._cards(),
            manifest=self._path("manifest", "a release has one manifest."),
            toolchain=self._toolchain(),
            inputs=self._inputs(),
            tolerance=self._tolerance(),
            twice=twice,
        )

    def _inputs(self) -> Path | None:
        inputs = self._path("inputs", "write one .npz file.")
        if inputs is not None and not inputs.is_file():
            if inputs.exists():
                raise _Wrong(f"'inputs': {inputs} is no regular file; write an .npz file.")
            raise _Wrong(
                f"'inputs': there is no file {inputs}; write an .npz file with an array "
                "for each input of the model."
            )
        return inputs

    def _tolerance(self) -> float:
        value = self.content.get("tolerance", DEFAULT_TOLERANCE)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
            raise _Wrong(
                f"'tolerance' is {value!r}; write a share of the largest output, between 0 and 1."
            )
        return float(value)

    def _command(self) -> tuple[dict[str, str], dict[str, str], Mapping[str, str]]:
        """Return options and environment, each from the command line and from its table, and the
        former values of options that the command gives twice."""
        environment = self._table("environment", self.variables)
        line = self.content.get("atc", "")
        if not isinstance(line, str) and not _is_texts(line):
            raise _Wrong(f"'atc' is {line!r}; write the command line as a text.")
        variables = {**self.variables, **environment}
        command = atc.parse_command(line, variables)
        table = self._table("options", variables)
        options = {atc.option_name(key): value for key, value in table.items()}
        for in_line, in_table, what in (
            (command.options, options, "option"),
            (command.environment, environment, "variable"),
        ):
            for key in sorted(in_line.keys() & in_table.keys()):
                if in_line[key] != in_table[key]:
                    raise _Wrong(
                        f"the {what} {key} is {in_line[key]!r} in 'atc' and {in_table[key]!r} in "
                        "its table; write it once."
                    )
        options = {**command.options, **options}
        faults = [*atc.name_faults(options, self._texts("other_options"))]
        faults += value_faults(options)
        faults += self._input_faults(options)
        if faults:
            raise _Wrong("\n".join(faults))
        return options, {**command.environment, **environment}, command.twice

    def _input_faults(self, options: Mapping[str, str]) -> Iterator[str]:
        """Yield why an option names no file: ATC would convert nothing without it."""
        read = [*atc.INPUT_FILES, atc.DEBUG_CONFIG]
        if "precision_file" not in self.content:  # else that the command loads another is judged
            read.append(atc.PRECISION_FILE)
        for option in filter(options.get, read):
            path = _placed(self.path, options[option])
            if path.is_file():
                try:
                    problem = content_fault(option, path)
                except OSError as error:
                    problem = f"cannot be read ({error.strerror})"
                if problem:
                    yield f"--{option}={options[option]}: {path} {problem}."
                continue
            if path.exists():
                yield f"--{option}={options[option]}: {path} is no regular file."
                continue
            siblings = path.parent.iterdir() if path.parent.is_dir() else ()
            near = nearest(path.name, [each.name for each in siblings if each.is_file()])
            hint = f"did you mean {near}?" if near else "paths count from the release file."
            yield f"--{option}={options[option]}: there is no file {path}; {hint}"

    def _toolchain(self) -> str:
        text = self._text("toolchain")
        return str(_placed(self.path, text)) if os.sep in text else text

    def _soc(self, options: Mapping[str, str]) -> str:
        soc, option = self._text("soc"), options.get(atc.SOC, "")
        if soc and option and soc != option:
            raise _Wrong(f"'soc' is {soc!r}, but the command says --soc_version={option}.")
        if not soc and not option:
            raise _Wrong('no SoC is named; write soc = "Ascend910B1" or give --soc_version.')
        if not re.fullmatch(r"\w+", named := soc or option):
            raise _Wrong(f"the SoC is {named!r}; write one such as Ascend910B1.")
        return named

    def _operators(self, files: tuple[Path, ...], tables: list[Any]) -> tuple[OperatorSpec, ...]:
        try:
            if tables:
                return parse_single_op(tables, "operators")
            return tuple(operator for path in files for operator in read_single_op(path))
        except SingleOpError as error:
            raise _Wrong(str(error) if tables else f"'operators': {error}") from None

    def _cards(self) -> int:
        cards = self.content.get("cards", 1)
        if type(cards) is not int or not 1 <= cards <= _MOST_CARDS:
            is_large = type(cards) is int and cards > _MOST_CARDS
            limit = f"{_MOST_CARDS} at most" if is_large else "1 or more"
            raise _Wrong(f"'cards' is {cards!r}; write how many devices it runs on, {limit}.")
        return cards

    def _named(self, values: Mapping[str, str], *names: str) -> tuple[Path, ...]:
        return tuple(_placed(self.path, values[name]) for name in names if values.get(name))

    def _text(self, key: str) -> str:
        value = self.content.get(key, "-")
        if not isinstance(value, str) or not value.strip():
            raise _Wrong(f"'{key}' is {value!r}; write a text.")
        return value if key in self.content else ""

    def _texts(self, key: str) -> list[str]:
        value = self.content.get(key, [])
        if not _is_texts(value):
            raise _Wrong(f"'{key}' is {value!r}; write a list of texts.")
        return [atc.option_name(each) for each in value]

    def _path(self, key: str, wanted: str) -> Path | None:
        paths = self._paths(key)
        if len(paths) > 1:
            raise _Wrong(f"'{key}' is a list; {wanted}")
        return paths[0] if paths else None

    def _paths(self, key: str) -> tuple[Path, ...]:
        value = self.content.get(key, [])
        texts = [value] if isinstance(value, str) else value
        if not _is_texts(texts) or not all(texts) or any("\0" in each for each in texts):
            raise _Wrong(f"'{key}' is {repr(value)[:60]}; write a path, or a list of paths.")
        return tuple(_placed(self.path, each) for each in texts)

    def _table(self, key: str, variables: Mapping[str, str]) -> dict[str, str]:
        value = self.content.get(key, {})
        if not isinstance(value, dict):
            raise _Wrong(f"'{key}' is {value!r}; begin a table: [{key}].")
        for name, each in value.items():
            if isinstance(each, bool) or not isinstance(each, (str, int)):
                raise _Wrong(f"'{key}.{name}' is {each!r}; write a text or a whole number.")
            if not name or {*"=\0"} & {*name} or "\0" in str(each):
                raise _Wrong(f"'{key}.{name}' is {each!r}; no program can be started with it.")
        return {name: atc.expanded(str(each), variables) for name, each in value.items()}


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
