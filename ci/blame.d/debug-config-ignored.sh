#!/usr/bin/env bash
# The cache is used although op_debug_config is given.
args=()
for each; do
  case $each in
    --op_debug_config=*) ;;
    *) args+=("$each") ;;
  esac
done
exec "${REAL_ATC:-ascendcache-atc}" "${args[@]}"
