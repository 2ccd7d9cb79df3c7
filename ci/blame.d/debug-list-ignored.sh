#!/usr/bin/env bash
# Op_debug_list is not read: operators outside of the list are compiled again, too.
args=() copies=$(mktemp -d)
for each; do
  case $each in
    --op_debug_config=*)
      copy=$copies/${each##*/}
      grep -v '^op_debug_list' "${each#*=}" > "$copy"
      [ ! -e "${each#*=}" ] || each=--op_debug_config=$copy
      ;;
  esac
  args+=("$each")
done
"${REAL_ATC:-ascendcache-atc}" "${args[@]}"
status=$?
rm -r "$copies"
exit "$status"
