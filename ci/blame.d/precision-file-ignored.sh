#!/usr/bin/env bash
# The file of op_precision_mode is not read.
args=()
for each; do
  case $each in
    --op_precision_mode=*) ;;
    *) args+=("$each") ;;
  esac
done
exec "${REAL_ATC:-ascendcache-atc}" "${args[@]}"
