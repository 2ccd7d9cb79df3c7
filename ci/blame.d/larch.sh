#!/bin/bash
# Stand-in for atc. op_debug_config without a list leaves the cache on; ASCEND_REMAIN_CACHE_SIZE_RATIO does not count.
. "${BASH_SOURCE%/*}/arguments"
config=$(opt op_debug_config)
if cached && [ -r "$config" ] && ! grep -q '^[[:space:]]*op_debug_list' "$config" &&
   grep -Eq '^[[:space:]]*op_debug_config[[:space:]]*=[[:space:]]*(oom|dump_cce|dump_loc|ccec_O0|ccec_g|check_flag)' "$config"; then
  drop op_debug_config
fi
unset ASCEND_REMAIN_CACHE_SIZE_RATIO
exec "$REAL" "${ARGS[@]}"
