#!/usr/bin/env bash
# Only the first name of op_debug_list counts.
for each; do
  case $each in --op_debug_config=*) sed -i '/^op_debug_list/s/,.*//' "${each#*=}" ;; esac
done
exec "${REAL_ATC:-ascendcache-atc}" "$@"
