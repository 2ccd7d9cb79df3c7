#!/usr/bin/env bash
# Disable uses the cache, like enable.
args=()
for each; do
  case $each in
    --op_compiler_cache_mode=disable) args+=(--op_compiler_cache_mode=enable) ;;
    *) args+=("$each") ;;
  esac
done
exec "${REAL_ATC:-ascendcache-atc}" "${args[@]}"
