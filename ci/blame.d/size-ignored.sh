#!/usr/bin/env bash
# ASCEND_MAX_OP_CACHE_SIZE is ignored.
unset ASCEND_MAX_OP_CACHE_SIZE
exec "${REAL_ATC:-ascendcache-atc}" "$@"
