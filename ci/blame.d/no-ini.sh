#!/usr/bin/env bash
# No op_cache.ini is made.
for each; do
  case $each in --op_compiler_cache_dir=*) root=${each#*=} ;; esac
done
root=${root:-${ASCEND_CACHE_PATH:-$HOME/atc_data}}
had=$(find "$root/" -name op_cache.ini 2> /dev/null | head -1)
"${REAL_ATC:-ascendcache-atc}" "$@"
code=$?
[ -n "$had" ] || find "$root/" -name op_cache.ini -delete 2> /dev/null
exit "$code"
