#!/bin/bash
# Stand-in for atc. A run that failed exits with 0.
. "${BASH_SOURCE%/*}/arguments"
"$REAL" "${ARGS[@]}"
status=$?
[ $status -lt 128 ] || [ $status -eq 255 ] || exit $status   # ended by a signal
exit 0
