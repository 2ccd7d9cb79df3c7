"""The names of ATC's options, so that a misspelled one is not taken for a default.

Source: the option tables of ATC's documentation, and the flags that the published graph engine
(``api/atc/atc_flags.cc``) and its predecessors define. Names only; a release of ATC may have
others, which ``other_options`` in ``release.toml`` names.
"""

from __future__ import annotations

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
"""Without dashes, words with ``_``."""

INPUT_FILES = (
    *("model", "weight", "insert_op_conf", "fusion_switch_file", "modify_mixlist", "keep_dtype"),
    *("compress_weight_conf", "compression_optimize_conf", "op_name_map"),
)
"""Options that name a file ATC reads, and that no rule of a release judges by itself."""
