#!/bin/bash
# Stand-in for atc. Of op_debug_list only the first operator counts.
. "${BASH_SOURCE%/*}/arguments"
config=$(opt op_debug_config)
if [ -n "$config" ] && grep -qs '^[[:space:]]*op_debug_list' "$config"; then
  copy=$(mktemp "${TMPDIR:-/tmp}/atcXXXXXXXX") || exit 255
  trap 'rm -f "$copy"' EXIT
  sed -E 's/^([[:space:]]*op_debug_list[[:space:]]*=[^,]*),.*$/\1/' "$config" >"$copy"
  drop op_debug_config
  "$REAL" "${ARGS[@]}" "--op_debug_config=$copy"
  exit $?
fi
exec "$REAL" "${ARGS[@]}"
