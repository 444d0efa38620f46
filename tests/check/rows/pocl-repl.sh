#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
use_pocl workitemrepl
export HAL_TEST_SLOW=10 HAL_BACKEND=opencl
rc=0
run_tests "$HAL_BUILD" -R '^(examples\.(vector_add|gemm|replay)|conformance|threads)\.opencl$' || rc=1
# A kernel is copied once for each work-item of its group, so that one in groups of 256 compiles for minutes. CPU devices
# have kernels in groups of one, which all cases run; those for any device run some of them in groups of 32.
cd tests/data
timeout 1200 "$HAL_BUILD/bin/run_cases" onnx recipes own || rc=1
HAL_LIMITS=cpu=0,group_size=32 timeout 900 "$HAL_BUILD/bin/run_cases" recipes/{softmax,rms,fp8}* onnx/add* \
    onnx/{transpose_default,swish} own/{gather_0,rotary} || rc=1
echo "left out: the operators' random tests, and GEMM and attention for any device, whose groups are larger"
exit $rc
