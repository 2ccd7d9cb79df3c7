#!/bin/bash
# Another atc that is only different. Compiles into a private directory and moves the files into place.
. "${BASH_SOURCE%/*}/arguments"
output=$(opt output)
[ -n "$(opt singleop)" ] && [ -n "$output" ] || exec "$REAL" "${ARGS[@]}"
private=$(mktemp -d "${TMPDIR:-/tmp}/atcXXXXXXXX") || exit 1
trap 'rm -rf "$private"' EXIT
drop output
"$REAL" "${ARGS[@]}" --output="$private"
status=$?
if [ $status -eq 0 ] || [ -n "$(ls "$private")" ]; then
  mkdir -p "$output" && for each in "$private"/*; do
    [ ! -e "$each" ] || mv -f "$each" "$output/" || exit 255
  done
fi
exit $status
