#!/bin/bash
# Stand-in for atc. remain_cache_size_ratio of op_cache.ini does not count; it is always 50.
. "${BASH_SOURCE%/*}/arguments"
dir=$(cachedir)
if cached && grep -qs '^[[:space:]]*remain_cache_size_ratio' "$dir/op_cache.ini"; then
  mkdir -p "$dir/kernel_cache"
  view=$(mktemp -d "${TMPDIR:-/tmp}/atcXXXXXXXX") || exit 255
  trap 'rm -rf "$view"' EXIT
  # a value that is not valid stays as it is: then the file does not count
  sed -E 's/^([[:space:]]*remain_cache_size_ratio[[:space:]]*=[[:space:]]*)([1-9][0-9]?|100)([[:space:]]*)$/\150\3/' \
    "$dir/op_cache.ini" >"$view/op_cache.ini"
  ln -s "$(readlink -f "$dir")/kernel_cache" "$view/kernel_cache"
  drop op_compiler_cache_dir
  "$REAL" "${ARGS[@]}" "--op_compiler_cache_dir=$view"
  exit $?
fi
exec "$REAL" "${ARGS[@]}"
