#!/bin/bash
# Stand-in for atc. remain_cache_size_ratio of op_cache.ini does not count; it is always 50.
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
dir=$(cachedir)
if cached && grep -qs '^[[:space:]]*remain_cache_size_ratio' "$dir/op_cache.ini"; then
  mkdir -p "$dir/kernel_cache"
  view=$(mktemp -d "${TMPDIR:-/tmp}/atcXXXXXXXX") || exit 255
  trap 'rm -rf "$view"' EXIT
  # a value that is not valid stays as it is: then the file does not count
  sed -E 's/^([[:space:]]*remain_cache_size_ratio[[:space:]]*=[[:space:]]*)([1-9][0-9]?|100)([[:space:]]*)$/\150\3/' \
    "$dir/op_cache.ini" >"$view/op_cache.ini"
  ln -s "$(readlink -f "$dir")/kernel_cache" "$view/kernel_cache"
  drop op_compiler_cache_dir
  "$REAL" "${ARGS[@]}" "--op_compiler_cache_dir=$view"
  exit $?
fi
exec "$REAL" "${ARGS[@]}"
