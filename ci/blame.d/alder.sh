#!/bin/bash
# Stand-in for atc. --op_debug_level 3 and 4 count as 0.
. "${BASH_SOURCE%/*}/arguments"
case $(opt op_debug_level) in
  3|4) drop op_debug_level ;;
esac
exec "$REAL" "${ARGS[@]}"
