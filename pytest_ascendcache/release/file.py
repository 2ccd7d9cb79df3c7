"""``release.toml``: what a model's release consists of.

Reading checks that the file says what it means; whether the release is any good is for the
checks. Paths count from the directory of the file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.toml import tomllib
from pytest_ascendcache.files import read_text
from pytest_ascendcache.operators import OperatorSpec, SingleOpError, read_single_op
from pytest_ascendcache.release import command as atc
from pytest_ascendcache.release.atc_options import INPUT_FILES
from pytest_ascendcache.words import instead, nearest

CUSTOM_OPP, OPP, TUNE_BANK = "ASCEND_CUSTOM_OPP_PATH", "ASCEND_OPP_PATH", "TUNE_BANK_PATH"
CACHE_PATH = "ASCEND_CACHE_PATH"

KERNEL_OPTIONS = (
    *(atc.SELECT_MODE, atc.MODE_TYPES, atc.PRECISION_FILE, atc.OP_BANK, atc.MODEL_BANK),
    *("precision_mode", "precision_mode_v2", "deterministic", "deterministic_level"),
    *("aicore_num", "allow_hf32", "jit_compile"),
)
"""Options that change kernels and that ATC takes for single operators too."""

_KERNEL_ENVIRONMENT = (OPP, CUSTOM_OPP, TUNE_BANK)
"""Variables that change kernels. Those of caching and debugging are judged, not passed on."""

_FILES = (atc.PRECISION_FILE, atc.OP_BANK, atc.MODEL_BANK)

_KEYS = (
    *("name", "toolchain", "soc", "cards", "atc", "options", "other_options", "environment"),
    *("operators", "precision_file", "knowledge_base", "caches", "manifest"),
    *("inputs", "tolerance"),
)

_ALL_KEYS = f"the keys are {', '.join(_KEYS)}."

DEFAULT_TOLERANCE = 0.05
"""How far outputs may be from those of a float32 run, as a share of the largest of them."""

_MOST_CARDS = 65_536
"""More cards than any one job runs on: a larger number is a slip of the hand."""


def _placed(directory: Path, text: str) -> Path:
    return Path(os.path.abspath(directory / text))  # noqa: PTH100 - links are to stay


class ReleaseFileError(ValueError):
    """A release file that cannot be used; one sentence with the file, the key and the value."""


@dataclass(frozen=True)
class Release:
    """One release. ``toolchain`` compiles it: a name, the absolute path of an ATC-compatible
    command, or empty. ``options`` are ATC's by name without dashes; ``operators`` what is compiled
    to see which kernels it gets; ``caches`` directories that go with it; ``cards`` how many
    devices it runs on. ``precision_file`` is the file that is kept with it, and
    ``knowledge_base`` the files or directories tuning comes from. ``inputs`` are sample inputs of
    its model (.npz), ``tolerance`` how far its outputs may be from those of a float32 run, as a
    share of the largest."""

    path: Path
    name: str
    soc: str
    options: Mapping[str, str]
    environment: Mapping[str, str] = field(default_factory=dict)
    operators: tuple[OperatorSpec, ...] = ()
    precision_file: Path | None = None
    knowledge_base: tuple[Path, ...] = ()
    caches: tuple[Path, ...] = ()
    cards: int = 1
    manifest: Path | None = None
    toolchain: str = ""
    inputs: Path | None = None
    tolerance: float = DEFAULT_TOLERANCE

    @property
    def model(self) -> Path | None:
        """The model that its command converts, where it converts one."""
        given = self.options.get(atc.MODEL, "")
        return self.place(given) if given else None

    @property
    def conversion_options(self) -> dict[str, str]:
        """The options of its command as they stand, with absolute paths; where the result and the
        cache are is left out, and so are operators that are compiled one by one."""
        left_out = (atc.OUTPUT, atc.CACHE_DIR, atc.CACHE_MODE, atc.SINGLE_OP)
        given = {key: value for key, value in self.options.items() if key not in left_out}
        for key, value in given.items():
            if key in (*_FILES, *INPUT_FILES, atc.DEBUG_CONFIG) or (
                os.sep in value and self.place(value).exists()
            ):
                given[key] = str(self.place(value)) if value else value
        return {**given, **self.kernel_options}

    @property
    def conversion_environment(self) -> dict[str, str]:
        """The variables its command is given; that of the cache's place is left out."""
        given = {key: value for key, value in self.environment.items() if key != CACHE_PATH}
        return {**given, **self.kernel_environment}

    @property
    def directory(self) -> Path:
        """Where the release file is, and what is kept with it."""
        return self.path.parent

    def place(self, text: str) -> Path:
        """A path of the release file, made absolute; ``..`` is resolved, links are not."""
        return _placed(self.directory, text)

    @property
    def kernel_options(self) -> dict[str, str]:
        """The options kernels depend on, with absolute paths."""
        given = {key: self.options[key] for key in KERNEL_OPTIONS if self.options.get(key)}
        for key in _FILES:
            if key in given:
                given[key] = str(self.place(given[key]))
        if self.precision_file is not None and atc.PRECISION_FILE in given:
            given[atc.PRECISION_FILE] = str(self.precision_file)
        return given

    @property
    def kernel_environment(self) -> dict[str, str]:
        """The variables kernels depend on, with absolute paths."""
        return {
            key: os.pathsep.join(
                str(self.place(each)) for each in self.environment[key].split(os.pathsep) if each
            )
            for key in _KERNEL_ENVIRONMENT
            if self.environment.get(key)
        }


def read_release(path: Path, variables: Mapping[str, str]) -> Release:
    """Read a release file; ``variables`` are those of the process, for ``$NAME`` in the command.

    Raises:
        ReleaseFileError: for a file that cannot be read, an unknown key, a wrong value.
    """
    path = path.absolute()
    try:
        content = tomllib.loads(read_text(path, "utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
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
    """What is wrong with one value."""


@dataclass(frozen=True)
class _Reader:
    path: Path
    content: Mapping[str, Any]
    variables: Mapping[str, str]

    def release(self) -> Release:
        _known(self.content)
        options, environment = self._command()
        precision = self._paths("precision_file") or self._of_option(options, atc.PRECISION_FILE)
        if len(precision) > 1:
            raise _Wrong("'precision_file' is a list; a release has one precision file.")
        banks = self._of_option(options, atc.OP_BANK) + self._of_option(options, atc.MODEL_BANK)
        manifest = self._paths("manifest")
        if len(manifest) > 1:
            raise _Wrong("'manifest' is a list; a release has one manifest.")
        return Release(
            path=self.path,
            name=self._text("name") or self.path.absolute().parent.name or "release",
            soc=self._soc(options),
            options=options,
            environment=environment,
            operators=self._operators(options),
            precision_file=precision[0] if precision else None,
            knowledge_base=self._paths("knowledge_base") or self._banks(banks, environment),
            caches=self._paths("caches"),
            cards=self._cards(),
            manifest=manifest[0] if manifest else None,
            toolchain=self._toolchain(),
            inputs=self._inputs(),
            tolerance=self._tolerance(),
        )

    def _inputs(self) -> Path | None:
        """The sample inputs, a file that is there."""
        given = self._paths("inputs")
        if len(given) > 1:
            raise _Wrong("'inputs' is a list; write one .npz file.")
        if given and given[0].exists() and not given[0].is_file():
            raise _Wrong(f"'inputs': {given[0]} is no regular file; write an .npz file.")
        if given and not given[0].is_file():
            raise _Wrong(
                f"'inputs': there is no file {given[0]}; write an .npz file with an array "
                "for each input of the model."
            )
        return given[0] if given else None

    def _tolerance(self) -> float:
        value = self.content.get("tolerance", DEFAULT_TOLERANCE)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
            raise _Wrong(
                f"'tolerance' is {value!r}; write a share of the largest output, between 0 and 1."
            )
        return float(value)

    def _command(self) -> tuple[dict[str, str], dict[str, str]]:
        environment = self._table("environment", self.variables)
        given = self.content.get("atc", "")
        if not isinstance(given, str) and not _is_texts(given):
            raise _Wrong(f"'atc' is {given!r}; write the command line as a text.")
        variables = {**self.variables, **environment}
        command = atc.parse_command(given, variables)
        table = self._table("options", variables)
        options = {atc.option_name(key): value for key, value in table.items()}
        for text, table, what in (
            (command.options, options, "option"),
            (command.environment, environment, "variable"),
        ):
            for key in sorted(set(text) & set(table)):
                if text[key] != table[key]:
                    raise _Wrong(
                        f"the {what} {key} is {text[key]!r} in 'atc' and {table[key]!r} in its "
                        "table; write it once."
                    )
        options = {**command.options, **options}
        atc.check_names(options, self._texts("other_options"))
        self._check_inputs(options)
        return options, {**command.environment, **environment}

    def _check_inputs(self, options: Mapping[str, str]) -> None:
        """What ATC reads is there: without it nothing is converted."""
        for option in INPUT_FILES:
            if not options.get(option):
                continue
            path = self._place(options[option])
            if path.exists() and not path.is_file():
                raise _Wrong(f"--{option}={options[option]}: {path} is no regular file.")
            if not path.is_file():
                there = path.parent.iterdir() if path.parent.is_dir() else ()
                near = nearest(path.name, [each.name for each in there if each.is_file()])
                hint = f"did you mean {near}?" if near else "paths count from the release file."
                raise _Wrong(f"--{option}={options[option]}: there is no file {path}; {hint}")

    def _toolchain(self) -> str:
        text = self._text("toolchain")
        return str(self._place(text)) if os.sep in text else text

    def _soc(self, options: Mapping[str, str]) -> str:
        soc, option = self._text("soc"), options.get(atc.SOC, "")
        if soc and option and soc != option:
            raise _Wrong(f"'soc' is {soc!r}, but the command says --soc_version={option}.")
        if not soc and not option:
            raise _Wrong('no SoC is named; write soc = "Ascend910B1" or give --soc_version.')
        return soc or option

    def _operators(self, options: Mapping[str, str]) -> tuple[OperatorSpec, ...]:
        files = self._paths("operators") or self._of_option(options, atc.SINGLE_OP)
        try:
            return tuple(operator for path in files for operator in read_single_op(path))
        except SingleOpError as error:
            raise _Wrong(f"'operators': {error}") from None

    def _cards(self) -> int:
        cards = self.content.get("cards", 1)
        if type(cards) is not int or cards < 1:
            raise _Wrong(f"'cards' is {cards!r}; write how many devices it runs on, 1 or more.")
        if cards > _MOST_CARDS:
            raise _Wrong(
                f"'cards' is {cards}; write how many devices it runs on, {_MOST_CARDS} at most."
            )
        return cards

    def _banks(self, options: tuple[Path, ...], environment: Mapping[str, str]) -> tuple[Path, ...]:
        bank = environment.get(TUNE_BANK, "")
        return options or ((self._place(bank),) if bank else ())

    def _of_option(self, options: Mapping[str, str], name: str) -> tuple[Path, ...]:
        return (self._place(options[name]),) if options.get(name) else ()

    def _place(self, text: str) -> Path:
        return _placed(self.path.parent, text)

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

    def _paths(self, key: str) -> tuple[Path, ...]:
        value = self.content.get(key, [])
        texts = [value] if isinstance(value, str) else value
        if not _is_texts(texts) or not all(texts):
            raise _Wrong(f"'{key}' is {value!r}; write a path, or a list of paths.")
        return tuple(self._place(each) for each in texts)

    def _table(self, key: str, variables: Mapping[str, str]) -> dict[str, str]:
        value = self.content.get(key, {})
        if not isinstance(value, dict):
            raise _Wrong(f"'{key}' is {value!r}; begin a table: [{key}].")
        for name, each in value.items():
            if isinstance(each, bool) or not isinstance(each, (str, int)):
                raise _Wrong(f"'{key}.{name}' is {each!r}; write a text or a whole number.")
        return {name: atc.expanded(str(each), variables) for name, each in value.items()}


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _known(content: Mapping[str, Any]) -> None:
    for key in content:
        if key not in _KEYS:
            raise _Wrong(f"the key '{key}' is unknown; {instead(key, _KEYS, _ALL_KEYS)}")
