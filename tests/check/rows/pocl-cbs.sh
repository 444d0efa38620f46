#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
ls /etc/OpenCL/vendors/*pocl* >/dev/null 2>&1 || skip "PoCL is not installed"
# A cache of its own: PoCL's key holds the method, libhal's does not.
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
export POCL_WORK_GROUP_METHOD=cbs POCL_CACHE_DIR=$cache/pocl HAL_CACHE_DIR=$cache/hal
mkdir "$cache/pocl"
run_tests "$HAL_BUILD" -R '\.opencl(\.|$)'
