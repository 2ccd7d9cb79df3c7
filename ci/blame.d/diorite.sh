#!/bin/bash
# Another atc that is only different. Ends its compiler when it is told to end, and says so with status 143 or 130.
. "${BASH_SOURCE%/*}/arguments"
"$REAL" "${ARGS[@]}" </dev/null &
child=$!
trap 'kill -TERM $child 2>/dev/null; wait $child; exit 143' TERM
trap 'kill -INT $child 2>/dev/null; wait $child; exit 130' INT
wait $child
