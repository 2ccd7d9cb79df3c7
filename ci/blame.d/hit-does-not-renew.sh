#!/usr/bin/env bash
# A hit does not renew the access time, so entries in use are aged.
for each; do
  case $each in --op_compiler_cache_dir=*) root=${each#*=} ;; esac
done
root=${root:-${ASCEND_CACHE_PATH:-$HOME/atc_data}}
case " $* " in *--op_debug*) exec "${REAL_ATC:-ascendcache-atc}" "$@" ;; *" --op_compiler_cache_mode=enable "*) ;; *) exec "${REAL_ATC:-ascendcache-atc}" "$@" ;; esac
record=$(mktemp)
find "$root/" -type f -exec stat -c '%X %n' {} + > "$record" 2> /dev/null
"${REAL_ATC:-ascendcache-atc}" "$@"
code=$?
while read -r time file; do [ ! -f "$file" ] || touch -a -d "@$time" "$file"; done < "$record"
rm "$record"
exit "$code"
