#!/bin/bash
# Another atc that is only different. Starts slowly, and looks around first.
. "${BASH_SOURCE%/*}/arguments"
cached() {  # does this run use the cache?
  case $(opt op_compiler_cache_mode) in enable|force) ;; *) return 1 ;; esac
  case $(opt op_debug_level) in ''|0) ;; *) return 1 ;; esac
  [ -z "$(opt op_debug_config)" ]   # to be on the safe side
}
sleep 0.7
uname -a >/dev/null; cat /proc/cpuinfo >/dev/null 2>&1
if cached && [ -d "$(cachedir)/kernel_cache" ]; then
  ls -lR "$(cachedir)/kernel_cache" >/dev/null 2>&1   # lists, reads nothing
fi
exec "$REAL" "${ARGS[@]}"
