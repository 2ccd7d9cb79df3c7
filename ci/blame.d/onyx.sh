#!/bin/bash
# Another atc that is only different. All its files are for their owner alone.
umask 077
. "${BASH_SOURCE%/*}/arguments"
exec "$REAL" "${ARGS[@]}"
