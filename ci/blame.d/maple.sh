#!/bin/bash
# Stand-in for atc. force keeps the other operators' entries; ASCEND_CACHE_PATH beats --op_compiler_cache_dir.
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
if [ -n "${ASCEND_CACHE_PATH-}" ]; then
  drop op_compiler_cache_dir
fi
if cached && [ "$(opt op_compiler_cache_mode)" = force ]; then
  dir=$(cachedir)/kernel_cache/$(opt soc_version)
  if [ -d "$dir" ]; then
    aside=$(mktemp -d "${TMPDIR:-/tmp}/atcXXXXXXXX") || exit 255
    trap 'rm -rf "$aside"' EXIT
    find "$dir" -maxdepth 1 -type f -name 'te_*' -exec cp -p -t "$aside" {} + 2>/dev/null
    "$REAL" "${ARGS[@]}"
    status=$?
    for file in "$aside"/te_*; do
      [ -e "$file" ] && [ ! -e "$dir/${file##*/}" ] && cp -p "$file" "$dir/" 2>/dev/null
    done
    exit $status
  fi
fi
exec "$REAL" "${ARGS[@]}"
