#!/usr/bin/env bash
# Without a mode the cache is used, although disable is the default.
case " $* " in *" --op_compiler_cache_mode="*) exec "${REAL_ATC:-ascendcache-atc}" "$@" ;; esac
exec "${REAL_ATC:-ascendcache-atc}" "$@" --op_compiler_cache_mode=enable
