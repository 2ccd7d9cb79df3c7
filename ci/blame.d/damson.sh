#!/bin/bash
# Stand-in for atc. With the cache on, a precision file is remembered by its name: an edited one has no effect.
. "${BASH_SOURCE%/*}/arguments"
file=$(opt op_precision_mode)
if [ -f "$file" ] && cached && [ "$(opt op_compiler_cache_mode)" = enable ]; then
  dir=$(cachedir)
  kept="$dir/.precision/$(basename "$file")"
  if [ ! -e "$kept" ]; then
    mkdir -p -m 750 "$dir/.precision" 2>/dev/null &&
      cp "$file" "$kept.$$" 2>/dev/null && mv "$kept.$$" "$kept" 2>/dev/null
  fi
  if [ -r "$kept" ]; then
    drop op_precision_mode
    ARGS+=("--op_precision_mode=$kept")
  fi
fi
exec "$REAL" "${ARGS[@]}"
