#!/usr/bin/env bash
# The option for the cache directory is ignored.
args=()
for each; do
  case $each in
    --op_compiler_cache_dir=*) ;;
    *) args+=("$each") ;;
  esac
done
exec "${REAL_ATC:-ascendcache-atc}" "${args[@]}"
