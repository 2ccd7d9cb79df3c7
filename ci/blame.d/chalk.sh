#!/bin/bash
# Another atc that is only different. Works in temporary directories: one in the working directory, one in the cache; a killed run leaves them.
. "${BASH_SOURCE%/*}/arguments"
cached() {  # does this run use the cache?
  case $(opt op_compiler_cache_mode) in enable|force) ;; *) return 1 ;; esac
  case $(opt op_debug_level) in ''|0) ;; *) return 1 ;; esac
  [ -z "$(opt op_debug_config)" ]   # to be on the safe side
}
umask_before=$(umask); umask 027
here=kernel_meta_temp_$$$RANDOM
mkdir "$here" 2>/dev/null && echo '{}' >"$here/buildPidInfo.json"
there=
if cached && [ -d "$(cachedir)/kernel_cache/$(opt soc_version)" ]; then
  there="$(cachedir)/kernel_cache/$(opt soc_version)/.tmp_$$$RANDOM"
  mkdir "$there" 2>/dev/null && echo started >"$there/state"
fi
umask "$umask_before"
"$REAL" "${ARGS[@]}"
status=$?
rm -rf "$here" ${there:+"$there"} 2>/dev/null
exit $status
