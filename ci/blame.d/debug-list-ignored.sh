#!/usr/bin/env bash
# Op_debug_list is not read: operators outside of the list are compiled again, too.
for each; do
  case $each in --op_debug_config=*) sed -i '/^op_debug_list/d' "${each#*=}" ;; esac
done
exec "${REAL_ATC:-ascendcache-atc}" "$@"
