#!/usr/bin/env bash
# Enable deletes the cache and compiles everything again, like force.
args=()
for each; do
  case $each in
    --op_compiler_cache_mode=enable) args+=(--op_compiler_cache_mode=force) ;;
    *) args+=("$each") ;;
  esac
done
exec "${REAL_ATC:-ascendcache-atc}" "${args[@]}"
