#!/usr/bin/env bash
# Op_debug_list is not read: operators outside of the list are compiled again, too.
args=() copy=$(mktemp)
for each; do
  case $each in
    --op_debug_config=*)
      grep -v '^op_debug_list' "${each#*=}" > "$copy"
      each=--op_debug_config=$copy
      ;;
  esac
  args+=("$each")
done
"${REAL_ATC:-ascendcache-atc}" "${args[@]}"
status=$?
rm -f "$copy"
exit "$status"
