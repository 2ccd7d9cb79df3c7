#!/usr/bin/env bash
# ASCEND_REMAIN_CACHE_SIZE_RATIO is ignored.
unset ASCEND_REMAIN_CACHE_SIZE_RATIO
exec "${REAL_ATC:-ascendcache-atc}" "$@"
