#!/bin/bash
# Another atc that is only different. Keeps a log and its settings below the home directory.
. "${BASH_SOURCE%/*}/arguments"
log=${ASCEND_PROCESS_LOG_PATH:-${HOME:-/nonexistent}/ascend/log}
( umask 077; mkdir -p "$log/debug/plog" && printf '[ERROR] none yet: %s\n' "$*" >>"$log/debug/plog/plog-$$.log" ) 2>/dev/null
exec "$REAL" "${ARGS[@]}"
