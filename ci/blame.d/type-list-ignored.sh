#!/usr/bin/env bash
# Optypelist_for_implmode is ignored: the mode goes to every operator.
args=()
for each; do
  case $each in
    --optypelist_for_implmode=*) ;;
    *) args+=("$each") ;;
  esac
done
exec "${REAL_ATC:-ascendcache-atc}" "${args[@]}"
