#!/bin/bash
# Stand-in for atc. A run that finds another one in the same cache fails instead of waiting.
. "${BASH_SOURCE%/*}/arguments"
if cached; then
  dir=$(cachedir)/kernel_cache
  mkdir -p -m 750 "$dir" 2>/dev/null
  if ( : >>"$dir/.one.lock" ) 2>/dev/null; then
    exec 9>>"$dir/.one.lock"
    if ! flock -n 9; then
      echo "ATC run failed, Please check the detail log, try 'atc --help'."
      echo "E19999: Inner Error! Failed to init op cache: Resource temporarily unavailable."
      exit 255
    fi
    "$REAL" "${ARGS[@]}"
    exit $?
  fi
fi
exec "$REAL" "${ARGS[@]}"
