"""Wrong uses of the API, each a function: mypy and pyright refuse its last line, and so does the
call itself, with one sentence. ``test_wrong_uses`` holds all three to it."""

from __future__ import annotations

from pathlib import Path

from pytest_ascendcache import (
    CacheUnderTest,
    CompileOptions,
    DebugConfig,
    Entry,
    NetworkUnderTest,
    PrecisionFile,
    Run,
    TensorDesc,
    operator,
    read_network,
    read_single_op,
)

ADD = operator("Add", "float16", 4, 8)
NETWORK = read_network(Path(__file__).parents[2] / "docs/example/models/regression.json")


# --- options of a compile ---------------------------------------------------------------------


def an_option_that_does_not_exist(cache: CacheUnderTest) -> None:
    cache.compile(ADD, debug_list=("Add",))


def a_mistyped_option(cache: CacheUnderTest) -> None:
    cache.attempt(ADD, moed="enable")


def an_option_of_warm_that_does_not_exist(cache: CacheUnderTest) -> None:
    cache.warm(ADD, level=1)


def an_option_of_entry_that_does_not_exist(cache: CacheUnderTest) -> None:
    cache.entry(ADD, chip="Ascend910B1")


def an_option_of_recovery_that_does_not_exist(cache: CacheUnderTest) -> None:
    cache.recovery(ADD, debug_list=("Add",))


def a_change_of_options_that_does_not_exist() -> None:
    CompileOptions().but(debug_list=("Add",))


def a_change_of_options_to_an_unknown_mode() -> None:
    CompileOptions().but(cache_mode="enabled")


def a_mode_that_does_not_exist(cache: CacheUnderTest) -> None:
    cache.compile(ADD, mode="enabled")


def a_mode_in_capitals(cache: CacheUnderTest) -> None:
    cache.compile(ADD, mode="ENABLE")


def a_mode_that_is_no_text(cache: CacheUnderTest) -> None:
    cache.compile(ADD, mode=True)


def an_implementation_mode_that_does_not_exist(cache: CacheUnderTest) -> None:
    cache.compile(ADD, select_implmode="precise")


def an_implementation_mode_that_is_a_number(cache: CacheUnderTest) -> None:
    cache.compile(ADD, select_implmode=1)


def a_debug_level_as_text(cache: CacheUnderTest) -> None:
    cache.compile(ADD, debug_level="1")


def a_debug_level_with_a_fraction(cache: CacheUnderTest) -> None:
    cache.compile(ADD, debug_level=1.5)


def the_path_of_a_precision_file(cache: CacheUnderTest) -> None:
    cache.compile(ADD, precision_file=Path("precision.ini"))


def the_name_of_a_precision_file(cache: CacheUnderTest) -> None:
    cache.compile(ADD, precision_file="precision.ini")


def a_number_for_the_chip(cache: CacheUnderTest) -> None:
    cache.compile(ADD, soc=910)


def one_type_instead_of_a_list(cache: CacheUnderTest) -> None:
    cache.compile(ADD, implmode_types="Exp")


def a_list_of_numbers_for_types(cache: CacheUnderTest) -> None:
    cache.compile(ADD, implmode_types=[1])


def a_switch_instead_of_a_debug_config(cache: CacheUnderTest) -> None:
    cache.compile(ADD, debug_config="ccec_g")


def a_number_for_a_directory(cache: CacheUnderTest) -> None:
    cache.compile(ADD, cache_dir=3)


def a_umask_as_text(cache: CacheUnderTest) -> None:
    cache.compile(ADD, umask="077")


def a_list_of_raw_options(cache: CacheUnderTest) -> None:
    cache.compile(ADD, raw_options=["--op_debug_level=1"])


def a_raw_mode_that_is_no_text(cache: CacheUnderTest) -> None:
    cache.compile(ADD, raw_mode=1)


def a_debug_file_that_is_no_path(cache: CacheUnderTest) -> None:
    cache.compile(ADD, debug_file=1)


def one_variable_instead_of_a_set(cache: CacheUnderTest) -> None:
    cache.compile(ADD, unset="HOME")


def a_variable_that_is_no_text(cache: CacheUnderTest) -> None:
    cache.compile(ADD, environment={"RANK_ID": 1})


def an_environment_that_is_no_dict(cache: CacheUnderTest) -> None:
    cache.compile(ADD, environment="RANK_ID=1")


# --- operators --------------------------------------------------------------------------------


def a_name_where_an_operator_is_meant(cache: CacheUnderTest) -> None:
    cache.compile("add")


def a_list_of_operators(cache: CacheUnderTest) -> None:
    cache.compile([ADD])


def a_name_to_warm(cache: CacheUnderTest) -> None:
    cache.warm("add")


def a_name_of_an_entry(cache: CacheUnderTest) -> None:
    cache.entry("add")


def a_name_of_a_fresh_kernel(cache: CacheUnderTest) -> None:
    cache.fresh("add")


def one_request_instead_of_a_list(cache: CacheUnderTest) -> None:
    cache.together(cache.request(ADD))


def a_number_for_another_directory(cache: CacheUnderTest) -> None:
    cache.elsewhere(3)


def a_number_for_a_data_type() -> None:
    operator("Add", 16, 4, 8)


def a_text_for_a_shape() -> None:
    operator("Add", "float16", "4x8")


def a_fraction_for_a_shape() -> None:
    operator("Add", "float16", 4.5)


def a_text_for_an_extent() -> None:
    TensorDesc.of("float16", "4")


def a_name_for_a_tensors_type() -> None:
    TensorDesc((4, 8), "float16")


def a_number_for_a_file_of_operators() -> None:
    read_single_op(3)


def bytes_for_a_file_of_a_network() -> None:
    read_network(b"network.json")


def an_option_of_options_that_does_not_exist() -> None:
    CompileOptions(debug_list=("Add",))


def a_switch_instead_of_switches() -> None:
    DebugConfig(switches="ccec_g")


def modes_as_the_content_of_a_file() -> None:
    PrecisionFile({"Exp": "high_precision"})


def a_line_instead_of_modes() -> None:
    PrecisionFile.of("Exp=high_precision")


# --- what came of it --------------------------------------------------------------------------


def an_outcome_by_name(run: Run) -> None:
    run["add"]


def a_kernel_by_name(run: Run) -> None:
    run.kernel("add")


def the_fate_of_a_name(run: Run) -> None:
    run.fate("add")


def the_object_of_an_entry(entry: Entry) -> None:
    entry.object.read_bytes()


# --- networks ---------------------------------------------------------------------------------


def a_name_where_a_network_is_meant(networks: NetworkUnderTest) -> None:
    networks.run("regression")


def a_name_of_a_network_to_warm(networks: NetworkUnderTest) -> None:
    networks.warm("regression")


def a_rank_as_text(networks: NetworkUnderTest) -> None:
    networks.run(NETWORK, rank="0")


def a_phase_that_does_not_exist(networks: NetworkUnderTest) -> None:
    networks.run(NETWORK, phase="train")


def a_variable_of_a_network_that_is_no_text(networks: NetworkUnderTest) -> None:
    networks.run(NETWORK, environment={"RANK_ID": 0})
