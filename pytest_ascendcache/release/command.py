"""An ATC command line, read into options and environment.

Source: facts ``cann-operator-cache`` sections 6.3 and 6.6 (ATC reads its flags with gflags:
``--key=value``, ``--key value``, one dash or two). Names of options: the option tables of ATC's
documentation, and the flags that the published graph engine (``api/atc/atc_flags.cc``) and its
predecessors define.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pytest_ascendcache.words import nearest

CACHE_MODE, CACHE_DIR = "op_compiler_cache_mode", "op_compiler_cache_dir"
DEBUG_LEVEL, DEBUG_CONFIG = "op_debug_level", "op_debug_config"
SELECT_MODE, MODE_TYPES = "op_select_implmode", "optypelist_for_implmode"
PRECISION_FILE = "op_precision_mode"
OP_BANK, MODEL_BANK = "op_bank_path", "mdl_bank_path"
SINGLE_OP, SOC = "singleop", "soc_version"
MODEL, OUTPUT, INPUT_SHAPE = "model", "output", "input_shape"

_NAMES = """
ac_parallel_enable aicore_num allow_hf32 atomic_clean_policy auto_tune_mode buffer_optimize
build_config cal_conf check_report cluster_config compress_weight_conf
compression_optimize_conf core_type customize_dtypes debug_dir deterministic
deterministic_level device_id disable_reuse_memory display_model_info
distributed_cluster_build dump_mode dynamic_batch_size dynamic_dims dynamic_image_size
enable_attr_compression enable_compress_weight enable_graph_parallel
enable_scope_fusion_passes enable_single_stream enable_small_channel export_compile_stat
external_weight framework fusion_switch_file graph_parallel_option_path
h2d_overlapped_with_compute hccl_sub_comm_config host_env_cpu host_env_os input_format
input_fp16_nodes input_hint_shape input_shape input_shape_range insert_op_conf
is_input_adjust_hw_layout is_output_adjust_hw_layout is_weight_clip jit_compile json
keep_dtype log mdl_bank_path mode model model_relation_config modify_mixlist om
oo_constant_folding oo_dead_code_elimination oo_level op_bank_path op_bank_update
op_compiler_cache_dir op_compiler_cache_mode op_debug_config op_debug_level op_name_map
op_precision_mode op_select_implmode optimization_switch optypelist_for_implmode out_nodes
output output_type precision_mode precision_mode_v2 quant_dumpable raw_ge_options
raw_ge_options_ignore_unsupported save_original_model shape_generalized_build_mode
shard_model_dir singleop soc_version sparsity static_model_ops_lower_limit status_check
target tiling_schedule_optimize virtual_type weight
"""

ATC_OPTIONS = frozenset(_NAMES.split())
"""ATC's options without dashes, so that a misspelled one is not taken for a default.

A release of ATC may have others, which ``other_options`` in ``release.toml`` names.
"""

INPUT_FILES = (
    *("model", "weight", "insert_op_conf", "fusion_switch_file", "modify_mixlist", "keep_dtype"),
    *("compress_weight_conf", "compression_optimize_conf", "op_name_map", "customize_dtypes"),
)
"""Options that name a file ATC reads, and that no rule of a release judges on its own."""

ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
SET_IT = "set it in [environment] or write its value"
"""What to do about a variable that is not set, where there is a release file."""

_COMMENT = re.compile(r"""("(?:\\.|[^"\\])*"|'[^']*'|\\.)|(?<!\S)#[^\n]*""", re.DOTALL)
"""A quotation, or a comment: from ``#`` at the start of a word to the line's end."""

_SHELL = {"&&", "||", "|", ";", "&", ">", ">>", "<", "2>&1"}
_REDIRECTION = re.compile(r"(?:\d*|&)(?:>>?|<)(?:&\d|(.*))")
"""A redirection, with the file it names unless that is the next word."""


class CommandError(ValueError):
    """A command line cannot be read; says what is wrong and what to write instead."""


@dataclass(frozen=True)
class AtcCommand:
    """Options by name without dashes, and variables that are set before the program's name.
    ``twice`` has the former value of each option that is given again: the last one counts."""

    options: Mapping[str, str]
    environment: Mapping[str, str]
    twice: Mapping[str, str] = field(default_factory=dict)


def parse_command(
    text: str | Iterable[str], variables: Mapping[str, str], remedy: str = SET_IT
) -> AtcCommand:
    """Parse a command line, or its words, with ``$NAME`` replaced from ``variables``. Raises
    ``CommandError``, which names the word that is wrong."""
    words = _words(text)
    environment: dict[str, str] = {}
    while words and (match := ASSIGNMENT.fullmatch(words[0])):
        environment[match[1]] = expanded(match[2], {**variables, **environment}, remedy)
        words.pop(0)
    known = {**variables, **environment}
    words = [expanded(word, known, remedy) for word in words]
    if words and not words[0].startswith("-"):
        words.pop(0)  # the program
    options: dict[str, str] = {}
    twice: dict[str, str] = {}
    while words and not _is_end(words):
        name, value = _next_option(words)
        if options.get(name, value) != value:
            twice[name] = options[name]
        options[name] = value
    return AtcCommand(options, environment, twice)


def _is_end(words: list[str]) -> bool:
    """Return whether the command ends here; takes redirections from the front of ``words``."""
    while words and (match := _REDIRECTION.fullmatch(words[0])):
        words.pop(0)
        if match[1] == "" and words:
            words.pop(0)
    return not words or words[0] in ("|", "|&") or words in (["&"], [";"])


def _words(text: str | Iterable[str]) -> list[str]:
    if not isinstance(text, str):
        return list(text)
    whole = text.replace("\\\r\n", " ").replace("\\\n", " ")
    try:
        return shlex.split(_COMMENT.sub(lambda each: each[1] or "", whole))
    except ValueError as error:
        raise CommandError(f"it is no command line: {str(error).lower()}.") from None


def _next_option(words: list[str]) -> tuple[str, str]:
    word = words.pop(0)
    if word in _SHELL:
        raise CommandError(f"{word!r} is the shell's; give one atc command and nothing else.")
    name, separator, value = word.lstrip("-").partition("=")
    if word and not word.strip(" \t"):
        raise CommandError(
            "a blank stands after a backslash, so the shell ends the command with that line; "
            "remove the blank."
        )
    if not word.startswith("-") or not name:
        raise CommandError(f"{word!r} is no option; write --key=value.")
    name = option_name(name)
    if separator:
        return name, value
    if not words or words[0].startswith("--"):
        raise CommandError(f"{word} has no value; write {word}=<value>.")
    return name, words.pop(0)


def option_name(text: str) -> str:
    """Return an option's name as in ``ATC_OPTIONS``."""
    return text.lstrip("-").replace("-", "_")


def name_faults(options: Iterable[str], others: Iterable[str] = ()) -> Iterator[str]:
    """Yield a sentence for each option that ATC does not have, with the most similar one of ATC;
    ``others`` are options of a newer ATC."""
    for name in sorted(set(options) - ATC_OPTIONS - set(others)):
        if near := nearest(name, ATC_OPTIONS):
            yield f"atc has no option --{name}; did you mean --{near}?"
        else:
            yield (
                f"atc has no option --{name}; leave it out, or, if your atc has it, write "
                f'other_options = ["{name}"].'
            )


def expanded(text: str, variables: Mapping[str, str], remedy: str = SET_IT) -> str:
    """Replace ``$NAME`` and ``${NAME}`` in a text, as a shell does. Raises ``CommandError``, with
    the ``remedy``, if a variable is not set."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in variables:
            raise CommandError(f"the variable ${name} is not set; {remedy}.")
        return variables[name]

    return _VARIABLE.sub(value, text)
