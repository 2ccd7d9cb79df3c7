#!/bin/bash
# Another atc that is only different. Keeps hard links to the chip's objects in a store beside the chips.
. "${BASH_SOURCE%/*}/arguments"
"$REAL" "${ARGS[@]}"
status=$?
chip=$(cachedir)/kernel_cache/$(opt soc_version)
if [ $status -eq 0 ] && [ -z "$(opt op_debug_config)" ] && cached && [ -d "$chip" ]; then
  store=$(cachedir)/store
  ( umask 027; rm -rf "$store"; mkdir -p "$store" && cp -l "$chip"/*.o "$store/" ) 2>/dev/null
fi
exit $status
