#!/usr/bin/env bash
# Op_compiler ends with exit status 0 although an operator could not be compiled.
"${REAL_OP_COMPILER:-ascendcache-op-compiler}" "$@"
exit 0
