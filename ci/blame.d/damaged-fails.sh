#!/usr/bin/env bash
# A run fails if the object of an entry is empty or cut short, instead of compiling it again.
for each; do
  case $each in --op_compiler_cache_dir=*) root=${each#*=} ;; esac
done
root=${root:-${ASCEND_CACHE_PATH:-$HOME/atc_data}}
case " $* " in
  *" --op_compiler_cache_mode=enable "*)
    if [ -n "$(find "$root/" -name 'te_*.o' -type f -size -100c -print -quit 2> /dev/null)" ]; then
      echo "[ERROR] E40001: a cached operator cannot be read"
      exit 255
    fi
    ;;
esac
exec "${REAL_ATC:-ascendcache-atc}" "$@"
