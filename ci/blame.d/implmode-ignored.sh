#!/usr/bin/env bash
# Op_select_implmode is ignored.
args=()
for each; do
  case $each in
    --op_select_implmode=* | --optypelist_for_implmode=*) ;;
    *) args+=("$each") ;;
  esac
done
exec "${REAL_ATC:-ascendcache-atc}" "${args[@]}"
