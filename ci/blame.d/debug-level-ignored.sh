#!/usr/bin/env bash
# The cache is used although op_debug_level is not 0.
args=()
for each; do
  case $each in
    --op_debug_level=*) args+=(--op_debug_level=0) ;;
    *) args+=("$each") ;;
  esac
done
exec "${REAL_ATC:-ascendcache-atc}" "${args[@]}"
