#!/usr/bin/env bash
# ASCEND_CACHE_PATH wins over --op_compiler_cache_dir.
args=()
for each; do
  case $each in
    --op_compiler_cache_dir=*) [ -n "$ASCEND_CACHE_PATH" ] || args+=("$each") ;;
    *) args+=("$each") ;;
  esac
done
exec "${REAL_ATC:-ascendcache-atc}" "${args[@]}"
