#!/usr/bin/env bash
# Every package has the name static_kernel_20260101000000.run, so that packages replace each other.
"${REAL_OP_COMPILER:-ascendcache-op-compiler}" "$@"
status=$?
output=.
while [ $# -gt 0 ]; do
  case $1 in -o | --output) output=$2 ;; esac
  shift
done
for each in "$output"/static_kernel_*.run; do
  [ ! -f "$each" ] || mv "$each" "${each%/*}/static_kernel_20260101000000.run" 2> /dev/null
done
exit "$status"
