#!/bin/bash
# Stand-in for atc. force keeps the other operators' entries; ASCEND_CACHE_PATH beats --op_compiler_cache_dir.
. "${BASH_SOURCE%/*}/arguments"
if [ -n "${ASCEND_CACHE_PATH-}" ]; then
  drop op_compiler_cache_dir
fi
if cached && [ "$(opt op_compiler_cache_mode)" = force ]; then
  dir=$(cachedir)/kernel_cache/$(opt soc_version)
  if [ -d "$dir" ]; then
    aside=$(mktemp -d "${TMPDIR:-/tmp}/atcXXXXXXXX") || exit 255
    trap 'rm -rf "$aside"' EXIT
    find "$dir" -maxdepth 1 -type f -name 'te_*' -exec cp -p -t "$aside" {} + 2>/dev/null
    "$REAL" "${ARGS[@]}"
    status=$?
    for file in "$aside"/te_*; do
      [ -e "$file" ] && [ ! -e "$dir/${file##*/}" ] && cp -p "$file" "$dir/" 2>/dev/null
    done
    exit $status
  fi
fi
exec "$REAL" "${ARGS[@]}"
