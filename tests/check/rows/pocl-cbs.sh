#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
use_pocl cbs
# Debian 12's PoCL was built without it, says so, and takes the default.
said=$(HAL_BACKEND=opencl "$HAL_BUILD/bin/vector_add" 2>&1 || true)
if grep -q 'Unknown work group' <<<"$said"; then
    skip "this PoCL has no method cbs"
fi
run_tests "$HAL_BUILD" -R '\.opencl(\.|$)'
