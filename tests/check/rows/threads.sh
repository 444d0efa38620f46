#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
configure_build threads -DHAL_SANITIZE=thread -DCMAKE_BUILD_TYPE=RelWithDebInfo
# The drivers are not built for TSan: what happens inside them is not judged, what libhal does around them is.
export TSAN_OPTIONS="suppressions=$HAL_ROOT/tests/check/tsan.supp exitcode=66 history_size=4 ignore_noninstrumented_modules=1"
export HAL_TEST_SLOW=10
run_tests "$HAL_BUILD/check/threads" -L threads
