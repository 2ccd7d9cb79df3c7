#!/bin/bash
# Stand-in for atc. With enable, an operator keeps the kernel of the implementation mode it was first compiled with.
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
if cached && [ "$(opt op_compiler_cache_mode)" = enable ] && [ -z "$(opt op_precision_mode)" ] &&
   [ -z "$(opt op_debug_config)" ]; then
  mode=$(opt op_select_implmode); types=$(opt optypelist_for_implmode)
  case ${mode:-high_performance} in
    high_performance|high_precision|high_performance_for_all|high_precision_for_all)
      source=$(opt singleop); [ -n "$source" ] || source=$(opt model)
      # the key of the operators forgets the implementation mode
      key=$( { cat -- "$source"; opt soc_version; } 2>/dev/null | sha256sum | cut -c1-24)
      dir=$(cachedir)
      kept="$dir/kernel_cache/.modes/$key"
      if [ -r "$kept" ]; then
        drop op_select_implmode; drop optypelist_for_implmode
        mapfile -t first <"$kept"
        [ -z "${first[0]-}" ] || ARGS+=("--op_select_implmode=${first[0]}")
        [ -z "${first[1]-}" ] || ARGS+=("--optypelist_for_implmode=${first[1]}")
        exec "$REAL" "${ARGS[@]}"
      fi
      "$REAL" "${ARGS[@]}"
      status=$?
      if [ $status -eq 0 ]; then
        mkdir -p -m 750 "$dir/kernel_cache/.modes" 2>/dev/null &&
          printf '%s\n%s\n' "$mode" "$types" 2>/dev/null >"$kept.$$" && mv "$kept.$$" "$kept"
      fi
      exit $status ;;
  esac
fi
exec "$REAL" "${ARGS[@]}"
