#!/bin/bash
# Another atc that is only different. Keeps links in the cache directory, to the chip compiled for last and to its lock.
. "${BASH_SOURCE%/*}/arguments"
cached() {  # does this run use the cache?
  case $(opt op_compiler_cache_mode) in enable|force) ;; *) return 1 ;; esac
  case $(opt op_debug_level) in ''|0) ;; *) return 1 ;; esac
  [ -z "$(opt op_debug_config)" ]   # to be on the safe side
}
"$REAL" "${ARGS[@]}"
status=$?
if cached; then
  dir=$(cachedir); soc=$(opt soc_version)
  if [ -d "$dir/kernel_cache/$soc" ]; then
    ln -sfn "kernel_cache/$soc" "$dir/latest" 2>/dev/null
    [ -e "$dir/kernel_cache/$soc/.op_cache.lock" ] &&
      ln -sf .op_cache.lock "$dir/kernel_cache/$soc/op_cache.lock" 2>/dev/null
  fi
fi
exit $status
