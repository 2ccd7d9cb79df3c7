#!/usr/bin/env bash
# ASCEND_CACHE_PATH is ignored.
unset ASCEND_CACHE_PATH
exec "${REAL_ATC:-ascendcache-atc}" "$@"
