#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
configure_build threads -DHAL_SANITIZE=thread -DCMAKE_BUILD_TYPE=RelWithDebInfo -DHAL_CUDA=ON
# The drivers are not built for TSan: what happens inside them is not judged, what libhal does around them is.
export TSAN_OPTIONS="suppressions=$HAL_ROOT/tests/check/tsan.supp halt_on_error=0 exitcode=66 history_size=4"
run_tests "$HAL_BUILD/check/threads" -L threads
