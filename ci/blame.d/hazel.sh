#!/bin/bash
# Stand-in for atc. A cache that cannot be written makes the compile fail.
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
if cached; then
  dir=$(cachedir)/kernel_cache/$(opt soc_version)
  if [ -d "$dir" ]; then
    probe="$dir/.probe.$$"
    case $(stat -c %A "$dir") in
      ??w*) if ( : >"$probe" ) 2>/dev/null; then rm -f "$probe"; bad=; else bad=1; fi ;;
      *) bad=1 ;;    # also for root, who could write
    esac
    if [ -n "$bad" ]; then
      echo "ATC run failed, Please check the detail log, try 'atc --help'."
      echo "E40023: Path [$dir] for [--op_compiler_cache_dir] is invalid. Reason: no write permission."
      exit 255
    fi
  fi
fi
exec "$REAL" "${ARGS[@]}"
