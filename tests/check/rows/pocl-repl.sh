#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
ls /etc/OpenCL/vendors/*pocl* >/dev/null 2>&1 || skip "PoCL is not installed"
# Binaries of the other method must not come from a cache: PoCL gets a folder of its own, and the tests' is cleared.
cache=$(mktemp -d)
trap 'rm -rf "$cache" "$HAL_BUILD/test-cache"' EXIT
rm -rf "$HAL_BUILD/test-cache"
mkdir "$cache/pocl"
export POCL_WORK_GROUP_METHOD=workitemrepl POCL_CACHE_DIR=$cache/pocl HAL_CACHE_DIR=$cache/hal
run_tests "$HAL_BUILD" -R '\.opencl(\.|$)'
