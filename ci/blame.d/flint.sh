#!/bin/bash
# Another atc that is only different. Keeps a log of its runs in the cache directory.
. "${BASH_SOURCE%/*}/arguments"
cached() {  # does this run use the cache?
  case $(opt op_compiler_cache_mode) in enable|force) ;; *) return 1 ;; esac
  case $(opt op_debug_level) in ''|0) ;; *) return 1 ;; esac
  [ -z "$(opt op_debug_config)" ]   # to be on the safe side
}
"$REAL" "${ARGS[@]}"
status=$?
if cached; then
  dir=$(cachedir)/kernel_cache/$(opt soc_version)
  if [ -d "$dir" ]; then
    ( umask 027; printf '{"pid": %d, "mode": "%s", "exit": %d}\n' $$ "$(opt op_compiler_cache_mode)" $status \
        >>"$dir/run_statistics.jsonl" ) 2>/dev/null
  fi
fi
exit $status
