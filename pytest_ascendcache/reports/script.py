"""A script that shows a broken promise with the toolchain alone, for its vendor.

It compiles one operator twice, with tools that every Linux has. In between it marks the cached
kernel, so that the second compile shows whether it was served.
"""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.facts import Aged, Aspect, Fact
from pytest_ascendcache.files import read_input
from pytest_ascendcache.language import Language, texts
from pytest_ascendcache.reports.headline import headline
from pytest_ascendcache.reports.history import entry_of, storing_place, wrong_place
from pytest_ascendcache.reports.requests import asks_a_cache

LINES = 15
_RUNS = 4
"""Runs of a check that a script can stand for."""
_LARGEST = 4096
"""Bytes of a file that a script contains."""
_DIRECTORY = "ASCEND_CACHE_PATH"
_PLACES = ("HOME", _DIRECTORY)
_INPUT = ("--singleop", "--model")
_FILES = ("--op_debug_config", "--op_precision_mode", *_INPUT)
_OURS = (*_INPUT, "--output", "--soc_version", "--op_compiler_cache_dir")
_HEAD = """\
#!/bin/sh
# {what}
# Usage: sh FILE [ATC]. Needs nothing but atc. Exit status 1: the bug is there.
atc=$(realpath -s "$(command -v "${{1:-atc}}")") && cd "$(mktemp -d)" && \
export HOME="$PWD" || exit 2
"""
_RUN = """\
run() {{ rm -rf out; mkdir out; "$atc" {fixed} "$@" > log 2>&1; }}
"""
_MARK = """\
for o in $(find cache -name '*.o'); do s=$(sha256sum < "$o" | cut -c1-64); printf MARKED >> "$o"
  sed -i "s/$s/$(sha256sum < "$o" | cut -c1-64)/" "${o%.o}.json"; done
"""
_LOOK = """\
seen=compiled; grep -rqs MARKED out && seen=reused; entry={none}
[ -n "$(find cache -name '*.o' 2> log)" ] && entry={some}; grep -rqs MARKED cache && entry=kept
echo "seen: $seen, entry $entry; expected: {expected}"
case $seen/$entry in {patterns}) ;; *) exit 1 ;; esac
"""
_LOOK_FOR_ENTRY = """\
entry=removed; grep -rqs MARKED cache && entry=kept
echo "seen: the entry of before is $entry; expected: {expected}"
case $entry in {patterns}) ;; *) exit 1 ;; esac
"""
_AGE = """\
o=$(find cache -name '*.o' | head -1); o=${o%.o}
for i in 1 2 3; do cp $o.json ${o}_$i.json; cp $o.o ${o}_$i.o; truncate -s 2M ${o}_$i.o; done
find cache -name '*_[123].*' -exec touch -d '2 hours ago' {} +
"""
_AGED = """\
left=$(find cache -name '*_[123].o' | wc -l)
echo "3 entries of 2 MB, limit 1 MB, last used 2 hours ago: $left left; expected: 0"
[ "$left" = 0 ] || exit 1
"""


@dataclass(frozen=True)
class _Request:
    """What a command line asks for: variables, options, and the contents of the files it names."""

    variables: Mapping[str, str]
    options: Mapping[str, str]

    @classmethod
    def of(cls, command: str) -> _Request:
        words = shlex.split(command.partition("&& ")[2] or command)
        program = next(
            (place for place, word in enumerate(words) if "=" not in word.partition("/")[0]), 0
        )
        pairs = [each.partition("=")[::2] for each in words[:program]]
        options = [each.partition("=")[::2] for each in words[program + 1 :]]
        return cls(
            {name: value for name, value in pairs if name not in _PLACES},
            dict(each for each in options if each[0].startswith("--")),
        )

    def text_of(self, name: str, operator: str) -> str:
        """The content of a file that an option names: of an operators' file only this operator."""
        content = read_input(Path(self.options[name]), _LARGEST << 8)
        if name != "--singleop":
            return content.decode("utf-8") if name != "--model" else content.decode("latin-1")
        operators = json.loads(content)
        kind = operator.partition("(")[0]
        mine = [each for each in operators if each["op"] == kind]
        return json.dumps(mine[:1] or operators[:1])


def plain_script(check: Mapping[str, Any], fact: Fact | None) -> str:
    """A script for the fact of a check; empty if two compiles cannot show it: after an accident,
    after many runs, or where some entries age and others do not."""
    evidence = check["evidence"]
    steps = evidence.get("steps") or ()
    place = wrong_place(steps, fact) if fact is not None else None
    if fact is None or place is None or f"event_{check['rule']}" in texts():
        return ""
    if sum(asks_a_cache(each["command"]) for each in steps) > _RUNS:
        return ""
    if fact.aspect is Aspect.AGING:
        nothing = not any(each["removed"] for each in evidence.get("sizes") or ())
        # What is under test limits the size: not the share to keep, and not -1, no limit.
        subject = "" if fact.subject is None else str(fact.subject)
        has_limit = not subject.endswith("=-1") and "RATIO" not in subject
        if not (nothing and fact.observed == Aged.TOO_FEW.value and has_limit):
            return ""
    try:
        lines = _script(steps, place, fact)
    except (OSError, ValueError, KeyError, TypeError):
        return ""  # the files of the run are gone, or are no files that a script can contain
    return lines if lines.count("\n") <= LINES and len(lines) < _LARGEST else ""


def _script(steps: Sequence[Mapping[str, Any]], place: int, fact: Fact) -> str:
    if fact.aspect not in (Aspect.OUTCOME, Aspect.ENTRY, Aspect.AGING):
        return ""
    entry = entry_of(steps[place], fact)
    before = storing_place(steps, place, entry)
    wrong = _Request.of(steps[place]["command"])
    first = _Request.of(steps[before]["command"]) if before is not None else None
    parts = [_HEAD.format(what=headline(fact, Language.ENGLISH) or fact.code)]
    names, lines = _written(wrong, "" if fact.aspect is Aspect.ENTRY else entry)
    parts += lines
    source = "--singleop" if "--singleop" in wrong.options else "--model"
    by_variable = f"{_DIRECTORY}=" in steps[place]["command"]
    is_option = "--op_compiler_cache_dir" in wrong.options or not by_variable
    directory = " --op_compiler_cache_dir=cache" if is_option else ""
    fixed = f"{source}={names[source]} --output=out --soc_version={wrong.options['--soc_version']}"
    if source == "--model":
        fixed = fixed.replace("--output=out", "--output=out/model --framework=5 --input_format=ND")
    parts.append(_RUN.format(fixed=fixed + directory))
    if not directory:
        parts.append(f'export {_DIRECTORY}="$PWD/cache"; mkdir -p cache\n')
    if fact.aspect is Aspect.AGING:
        return "".join([*parts, *_aging(names, fact)])
    if first is not None and fact.aspect is Aspect.ENTRY:
        # The run compiles another operator than the one whose entry it has to remove or to leave.
        own = shlex.quote(first.text_of("--singleop", entry))
        parts += [f"printf {own} > before\n", _call(first, {**names, "": "before"}), _MARK]
    elif first is not None:
        parts += [_call(first, names), _MARK]
    parts += [_call(wrong, names), _judged(fact, first is not None)]
    return "".join(parts)


def _written(request: _Request, entry: str) -> tuple[dict[str, str], list[str]]:
    """The names in the script of the files that a request names, and the lines that write them."""
    names, lines = {}, []
    for option in request.options:
        if option in _FILES:
            content = request.text_of(option, entry)
            name = option.removeprefix("--") + (".onnx" if option == "--model" else "")
            if option == "--model":
                encoded = base64.b64encode(content.encode("latin-1")).decode()
                lines.append(f"echo {encoded} | base64 -d > {name}\n")
            else:
                quoted = shlex.quote(content.replace("\\", "\\\\").replace("%", "%%"))
                lines.append(f"printf {quoted.replace(chr(10), chr(92) + 'n')} > {name}\n")
            names[option] = name
    return names, lines


def _call(request: _Request, names: Mapping[str, str]) -> str:
    words = [f"{name}={shlex.quote(value)}" for name, value in request.variables.items()]
    options = [
        f"{name}={names.get(name) or shlex.quote(value)}"
        for name, value in request.options.items()
        if name not in _OURS and not (name in _FILES and name not in names)
    ]
    options += [f"--singleop={names['']}"] if "" in names else []
    skipped = ("--framework", "--input_format")
    options = [each for each in options if each.partition("=")[0] not in skipped]
    return " ".join([*words, "run", *options]) + "\n"


def _judged(fact: Fact, is_second: bool) -> str:
    """The lines that say what the second run did, and whether that was expected."""
    if fact.aspect is Aspect.ENTRY:
        return _LOOK_FOR_ENTRY.format(expected=" or ".join(fact.expected), patterns=_or(fact))
    none, some = ("removed", "rewritten") if is_second else ("absent", "stored")
    words = " or ".join(fact.expected).replace("/", ", entry ")
    return _LOOK.format(none=none, some=some, expected=words, patterns=_or(fact))


def _or(fact: Fact) -> str:
    """What is expected, as a pattern of the shell."""
    plain = fact.aspect is Aspect.ENTRY
    return " | ".join(each if plain or "/" in each else f"{each}/*" for each in fact.expected)


def _aging(names: Mapping[str, str], fact: Fact) -> list[str]:
    """The lines that let a cache of three idle entries pass its limit."""
    run = _call(_Request({}, {"--op_compiler_cache_mode": "enable"}), names)
    if fact.subject is not None and fact.subject.name.endswith(".ini"):
        ini = r"[op_compiler_cache]\nmax_op_cache_size=1\nremain_cache_size_ratio=1\n"
        limit = f"printf '{ini}' > cache/op_cache.ini\n"
    else:
        limit = "export ASCEND_MAX_OP_CACHE_SIZE=1 ASCEND_REMAIN_CACHE_SIZE_RATIO=1\n"
    return [run, _AGE, limit, run, _AGED]
