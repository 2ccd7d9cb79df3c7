#!/usr/bin/env bash
# Force serves what the cache holds, like enable.
args=()
for each; do
  case $each in
    --op_compiler_cache_mode=force) args+=(--op_compiler_cache_mode=enable) ;;
    *) args+=("$each") ;;
  esac
done
exec "${REAL_ATC:-ascendcache-atc}" "${args[@]}"
