#!/usr/bin/env bash
# Atc crashes with force when the cache holds something.
for each; do
  case $each in --op_compiler_cache_dir=*) root=${each#*=} ;; esac
done
root=${root:-${ASCEND_CACHE_PATH:-$HOME/atc_data}}
case " $* " in
  *" --op_compiler_cache_mode=force "*) [ -z "$(find "$root/" -name '*.o' 2> /dev/null | head -1)" ] || kill -SEGV $$ ;;
esac
exec "${REAL_ATC:-ascendcache-atc}" "$@"
