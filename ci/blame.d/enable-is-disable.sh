#!/usr/bin/env bash
# Enable neither stores nor serves anything.
args=()
for each; do
  case $each in
    --op_compiler_cache_mode=enable) args+=(--op_compiler_cache_mode=disable) ;;
    *) args+=("$each") ;;
  esac
done
exec "${REAL_ATC:-ascendcache-atc}" "${args[@]}"
