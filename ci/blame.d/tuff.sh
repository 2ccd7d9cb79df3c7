#!/bin/bash
# Another atc that is only different. Its compiler is a daemon's child: no descendant of the command, in a session of its own.
. "${BASH_SOURCE%/*}/arguments"
private=$(mktemp -d "${TMPDIR:-/tmp}/atcXXXXXXXX") || exit 1
trap 'rm -rf "$private"' EXIT
mkfifo "$private/done"
( setsid bash -c '"$@" >"$0/out" 2>"$0/err" </dev/null; echo $? >"$0/done"' "$private" "$REAL" "${ARGS[@]}" & )
read -r status <"$private/done"
cat "$private/out"
cat "$private/err" >&2
exit "${status:-255}"
