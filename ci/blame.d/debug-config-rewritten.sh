#!/usr/bin/env bash
# The line op_debug_list is deleted from the user's own file.
for each; do
  case $each in --op_debug_config=*) sed -i '/^op_debug_list/d' "${each#*=}" ;; esac
done
exec "${REAL_ATC:-ascendcache-atc}" "$@"
