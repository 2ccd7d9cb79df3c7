#!/bin/bash
# Another atc that is only different. Other exit statuses of failures: 1, or 2 if an option is wrong.
. "${BASH_SOURCE%/*}/arguments"
cached() {  # does this run use the cache?
  case $(opt op_compiler_cache_mode) in enable|force) ;; *) return 1 ;; esac
  case $(opt op_debug_level) in ''|0) ;; *) return 1 ;; esac
  [ -z "$(opt op_debug_config)" ]   # to be on the safe side
}
log=$(mktemp "${TMPDIR:-/tmp}/atcXXXXXXXX") || exit 1
trap 'rm -f "$log"' EXIT
"$REAL" "${ARGS[@]}" >"$log"
status=$?
cat "$log"
if [ $status -eq 255 ]; then
  grep -q '^E1' "$log" && exit 2
  exit 1
fi
exit $status
