#!/bin/bash
# Stand-in for atc. A cache that cannot be written makes the compile fail.
. "${BASH_SOURCE%/*}/arguments"
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
