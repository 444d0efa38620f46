#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
ls /etc/OpenCL/vendors/*pocl* >/dev/null 2>&1 || skip "PoCL is not installed"
# Binaries of the other method must not come from a cache: PoCL gets a folder of its own, and the tests' is cleared.
cache=$(mktemp -d)
trap 'rm -rf "$cache" "$HAL_BUILD/test-cache"' EXIT
rm -rf "$HAL_BUILD/test-cache"
mkdir "$cache/pocl"
export POCL_WORK_GROUP_METHOD=cbs POCL_CACHE_DIR=$cache/pocl HAL_CACHE_DIR=$cache/hal
# Debian 12's PoCL was built without it, says so, and takes the default.
said=$(HAL_BACKEND=opencl "$HAL_BUILD/bin/vector_add" 2>&1 || true)
if grep -q 'Unknown work group' <<<"$said"; then
    skip "this PoCL has no method cbs"
fi
run_tests "$HAL_BUILD" -R '\.opencl(\.|$)'
