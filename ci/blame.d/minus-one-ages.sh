#!/usr/bin/env bash
# Entries are removed although the limit is -1.
[ "$ASCEND_MAX_OP_CACHE_SIZE" != -1 ] || export ASCEND_MAX_OP_CACHE_SIZE=1
exec "${REAL_ATC:-ascendcache-atc}" "$@"
