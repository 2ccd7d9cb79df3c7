#!/bin/bash
# Another atc that is only different. Says more, on both streams.
. "${BASH_SOURCE%/*}/arguments"
cached() {  # does this run use the cache?
  case $(opt op_compiler_cache_mode) in enable|force) ;; *) return 1 ;; esac
  case $(opt op_debug_level) in ''|0) ;; *) return 1 ;; esac
  [ -z "$(opt op_debug_config)" ]   # to be on the safe side
}
echo "ATC start working now, please wait for a moment."
echo "[WARNING] TBE(pid:$$) op_compiler_cache_mode: [$(opt op_compiler_cache_mode)], see the cache's documentation." >&2
"$REAL" "${ARGS[@]}"
status=$?
for i in 1 2 3 4 5 6 7 8 9 10; do
  printf '[INFO] GE(%s,atc):%s.%03d [graph_manager.cc:%d] step %d finished\n' $$ "$(date '+%F-%T')" $i $((1000 + i)) $i
done
printf '\n...\n'
echo "W11001: [$(opt soc_version)] compile cost $SECONDS s, hits unknown, error count 0, failed 0." >&2
exit $status
