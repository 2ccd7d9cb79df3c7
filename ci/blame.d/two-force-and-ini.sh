#!/usr/bin/env bash
# Force serves what the cache holds; and ASCEND_MAX_OP_CACHE_SIZE is ignored.
unset ASCEND_MAX_OP_CACHE_SIZE
args=()
for each; do
  case $each in
    --op_compiler_cache_mode=force) args+=(--op_compiler_cache_mode=enable) ;;
    *) args+=("$each") ;;
  esac
done
exec "${REAL_ATC:-ascendcache-atc}" "${args[@]}"
