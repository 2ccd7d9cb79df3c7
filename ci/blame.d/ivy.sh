#!/bin/bash
# Stand-in for atc. Everybody may write the files and directories of the cache.
REAL=${REAL_ATC:-ascendcache-atc}
ARGS=("$@")
opt() {  # value of --$1; the last one counts
  local value= i
  for ((i = 0; i < ${#ARGS[@]}; i++)); do
    case ${ARGS[i]} in
      --$1=*) value=${ARGS[i]#*=} ;;
      --$1) value=${ARGS[i+1]-} ;;
    esac
  done
  printf %s "$value"
}
drop() {  # remove --$1 and its value from ARGS
  local kept=() i
  for ((i = 0; i < ${#ARGS[@]}; i++)); do
    case ${ARGS[i]} in
      --$1=*) ;;
      --$1) i=$((i + 1)) ;;
      *) kept+=("${ARGS[i]}") ;;
    esac
  done
  ARGS=("${kept[@]}")
}
cachedir() {
  local d; d=$(opt op_compiler_cache_dir)
  [ -n "$d" ] || d=${ASCEND_CACHE_PATH-}
  [ -n "$d" ] || d=${HOME:-}/atc_data
  printf %s "$d"
}
cached() {  # does this run use the cache?
  case $(opt op_compiler_cache_mode) in enable|force) ;; *) return 1 ;; esac
  case $(opt op_debug_level) in ''|0) ;; *) return 1 ;; esac
}
"$REAL" "${ARGS[@]}"
status=$?
if cached; then
  dir=$(cachedir)/kernel_cache
  find "$dir" \( -type d -o -type f \) -exec chmod a+rwX {} + 2>/dev/null
fi
exit $status
