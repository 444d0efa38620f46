#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
use_pocl workitemrepl
export HAL_TEST_SLOW=10
rc=0
run_tests "$HAL_BUILD" -R '\.opencl(\.|$)' -E '^gemm\.' || rc=1
# A kernel is copied once for each work-item of its group: compiling the largest takes a core most of a minute, and all
# of them may take longer than the test's own limit.
HAL_BACKEND=opencl timeout 1800 "$HAL_BUILD/bin/test_gemm" || rc=1
exit $rc
