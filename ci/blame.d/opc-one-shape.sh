#!/usr/bin/env bash
# Op_compiler compiles the first operator-information file only.
. "${BASH_SOURCE%/*}/arguments"
while [ $# -gt 0 ]; do
  case $1 in -p | --op_params_dir) from=$2 ;; esac
  shift
done
kept=$(mktemp -d)
first=$(find "$from" -name '*.json' | sort | head -1)
[ -z "$first" ] || cp "$first" "$kept"
args=()
for each in "${ARGS[@]}"; do [ "$each" != "$from" ] || each=$kept; args+=("$each"); done
"${REAL_OP_COMPILER:-ascendcache-op-compiler}" "${args[@]}"
status=$?
rm -r "$kept"
exit "$status"
