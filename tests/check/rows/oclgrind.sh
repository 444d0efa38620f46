#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need oclgrind
library=$(find /usr/lib /usr/local/lib -name 'liboclgrind-rt-icd.so*' 2>/dev/null | head -n 1)
[ -n "$library" ] || skip "oclgrind's ICD library was not found"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/vendors"
echo "$library" >"$work/vendors/oclgrind.icd"
export OCL_ICD_VENDORS=$work/vendors HAL_CACHE_DIR="" HAL_BACKEND=opencl HAL_TEST_SLOW=10
export OCLGRIND_DATA_RACES=1 OCLGRIND_CHECK_API=1 OCLGRIND_LOG=$work/log

# It interprets every work-item, so only what is small fits: the examples, each kernel of the suite, the operators' cases.
rc=0
"$HAL_BUILD/bin/hal-bench" devices | grep -q Oclgrind || { echo "oclgrind is not the OpenCL device"; exit 1; }
for example in vector_add gemm replay; do timeout 120 "$HAL_BUILD/bin/$example" || rc=1; done
timeout 300 "$HAL_BUILD/bin/conformance" module || rc=1
timeout 300 "$HAL_BUILD/bin/run_cases" tests/data/onnx tests/data/recipes || rc=1
if [ -s "$work/log" ]; then
    echo "oclgrind says:"
    cat "$work/log"
    exit 1
fi
exit $rc
