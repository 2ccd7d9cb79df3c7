#!/bin/bash
# Another atc that is only different. One compiles at a time: the others wait for a lock in the cache's parent directory.
. "${BASH_SOURCE%/*}/arguments"
lock=$(dirname -- "$(cachedir)")/.atc.lock
[ -w "${lock%/*}" ] && ( umask 077; : >>"$lock" ) 2>/dev/null && exec 9>>"$lock" && flock -w 20 9
exec "$REAL" "${ARGS[@]}"
