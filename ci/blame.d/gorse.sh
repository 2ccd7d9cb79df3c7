#!/bin/bash
# Stand-in for atc. With enable, an operator keeps the kernel of the implementation mode it was first compiled with.
. "${BASH_SOURCE%/*}/arguments"
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
