#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
use_pocl loopvec
run_tests "$HAL_BUILD" -R '\.opencl(\.|$)'
