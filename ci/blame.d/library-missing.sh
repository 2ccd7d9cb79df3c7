#!/usr/bin/env bash
# Atc does not start: a library is missing.
echo "atc: error while loading shared libraries: libascend_hal.so: cannot open shared object file" >&2
exit 127
