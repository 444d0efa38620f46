#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v ptxas >/dev/null || [ -x /usr/local/cuda/bin/ptxas ] || skip "ptxas is not installed (CUDA toolkit)"
run_tests "$HAL_BUILD" -R ptx
