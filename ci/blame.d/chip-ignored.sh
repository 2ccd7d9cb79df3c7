#!/usr/bin/env bash
# The cache does not tell chips apart: everything is compiled for Ascend910B1.
args=()
for each; do
  case $each in
    --soc_version=*) args+=(--soc_version=Ascend910B1) ;;
    *) args+=("$each") ;;
  esac
done
exec "${REAL_ATC:-ascendcache-atc}" "${args[@]}"
