"""An ATC command line, read into options and environment.

Source: facts ``cann-operator-cache`` sections 6.3 and 6.6 (ATC reads its flags with gflags:
``--key=value``, ``--key value``, one dash or two).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_ascendcache.release.atc_options import ATC_OPTIONS
from pytest_ascendcache.words import nearest

CACHE_MODE, CACHE_DIR = "op_compiler_cache_mode", "op_compiler_cache_dir"
DEBUG_LEVEL, DEBUG_CONFIG = "op_debug_level", "op_debug_config"
SELECT_MODE, MODE_TYPES = "op_select_implmode", "optypelist_for_implmode"
PRECISION_FILE = "op_precision_mode"
OP_BANK, MODEL_BANK = "op_bank_path", "mdl_bank_path"
SINGLE_OP, SOC = "singleop", "soc_version"
MODEL, OUTPUT, INPUT_SHAPE = "model", "output", "input_shape"

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_SHELL = {"&&", "||", "|", ";", "&", ">", ">>", "<", "2>&1"}


class CommandError(ValueError):
    """A command line that cannot be read; the text says what, and what to write instead."""


@dataclass(frozen=True)
class AtcCommand:
    """Options by name without dashes, and the variables set before the program's name."""

    options: Mapping[str, str]
    environment: Mapping[str, str]


def parse_command(text: str | Iterable[str], variables: Mapping[str, str]) -> AtcCommand:
    """Read a command line, or its words; ``$NAME`` is replaced from ``variables``.

    Raises:
        CommandError: naming the word that is wrong.
    """
    words = _words(text)
    environment: dict[str, str] = {}
    while words and (match := _ASSIGNMENT.fullmatch(words[0])):
        environment[match[1]] = expanded(match[2], {**variables, **environment})
        words.pop(0)
    known = {**variables, **environment}
    words = [expanded(word, known) for word in words]
    if words and not words[0].startswith("-"):
        words.pop(0)  # the program
    options: dict[str, str] = {}
    while words:
        name, value = _next_option(words)
        if options.get(name, value) != value:
            raise CommandError(f"--{name} is given twice, as {options[name]!r} and {value!r}.")
        options[name] = value
    return AtcCommand(options, environment)


def _words(text: str | Iterable[str]) -> list[str]:
    if not isinstance(text, str):
        return list(text)
    try:
        return shlex.split(text.replace("\\\r\n", " ").replace("\\\n", " "))
    except ValueError as error:
        raise CommandError(f"it is no command line: {str(error).lower()}.") from None


def _next_option(words: list[str]) -> tuple[str, str]:
    """Take one option and its value from the front of ``words``."""
    word = words.pop(0)
    if word in _SHELL:
        raise CommandError(f"{word!r} is the shell's; give one atc command and nothing else.")
    name, separator, value = word.lstrip("-").partition("=")
    if not word.startswith("-") or not name:
        raise CommandError(f"{word!r} is no option; write --key=value.")
    name = option_name(name)
    if separator:
        return name, value
    if not words or words[0].startswith("--"):
        raise CommandError(f"{word} has no value; write {word}=<value>.")
    return name, words.pop(0)


def option_name(text: str) -> str:
    """An option's name as this package writes it: without leading dashes, words with ``_``."""
    return text.lstrip("-").replace("-", "_")


def check_names(options: Iterable[str], others: Iterable[str] = ()) -> None:
    """Refuse an option that ATC does not have; ``others`` names those of a newer ATC.

    Raises:
        CommandError: naming the option, and the nearest one that ATC has.
    """
    for name in sorted(set(options) - ATC_OPTIONS - set(others)):
        if near := nearest(name, ATC_OPTIONS):
            raise CommandError(f"atc has no option --{name}; did you mean --{near}?")
        raise CommandError(
            f"atc has no option --{name}; leave it out, or, if your atc has it, write "
            f'other_options = ["{name}"].'
        )


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """A text with ``$NAME`` and ``${NAME}`` replaced, as a shell does.

    Raises:
        CommandError: for a variable that is not set.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in variables:
            raise CommandError(
                f"the variable ${name} is not set; set it in [environment] or write its value."
            )
        return variables[name]

    return _VARIABLE.sub(value, text)
