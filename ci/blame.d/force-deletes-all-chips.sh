#!/usr/bin/env bash
# Force deletes the entries of other chips, too.
for each; do
  case $each in --op_compiler_cache_dir=*) root=${each#*=} ;; esac
done
root=${root:-${ASCEND_CACHE_PATH:-$HOME/atc_data}}
case " $* " in *" --op_compiler_cache_mode=force "*) rm -rf "$root"/kernel_cache/Ascend* "$root"/Ascend* ;; esac
exec "${REAL_ATC:-ascendcache-atc}" "$@"
