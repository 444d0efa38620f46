#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need oclgrind
library=$(find /usr/lib /usr/local/lib -name 'liboclgrind-rt-icd.so*' 2>/dev/null | head -n 1)
[ -n "$library" ] || skip "oclgrind's ICD library was not found"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/vendors" "$work/logs"
echo "$library" >"$work/vendors/oclgrind.icd"
export OCL_ICD_VENDORS=$work/vendors HAL_CACHE_DIR="" HAL_BACKEND=opencl HAL_TEST_SLOW=10
export OCLGRIND_DATA_RACES=1 OCLGRIND_CHECK_API=1
# A buffer that shares its allocation with others has no bounds that oclgrind could watch.
export HAL_LIMITS=pooled=0
"$HAL_BUILD/bin/hal-bench" devices | grep -q Oclgrind || { echo "oclgrind is not the OpenCL device"; exit 1; }

# First oclgrind itself: a write past a buffer and a race must be reported, else this row proves nothing.
mkdir -p "$HAL_BUILD/check"
provoke=$HAL_BUILD/check/provoke_oclgrind
cc -std=gnu17 -Ihal/include -o "$provoke" tests/check/provoke_oclgrind.c -L"$HAL_BUILD" -lhal "-Wl,-rpath,$HAL_BUILD"
OCLGRIND_LOG=$work/provoked "$provoke"
for fault in 'Invalid write' 'data race'; do
    grep -q "$fault" "$work/provoked" || { echo "oclgrind does not report: $fault"; exit 1; }
done

# It interprets every work-item, so only what is small fits: the examples, each kernel of the suite, the operators' cases
# with the kernels for CPU devices and with those for any device, whose groups race if they can.
# Each program empties the log that it is given.
rc=0
watch() { # LOG SECONDS PROGRAM [ARGUMENTS]
    OCLGRIND_LOG=$work/logs/$1 timeout "$2" "$HAL_BUILD/bin/$3" "${@:4}" || rc=1
}
for example in vector_add gemm replay; do watch "$example" 120 "$example"; done
watch conformance 300 conformance module
watch cases 600 run_cases tests/data/{onnx,recipes,own}
HAL_LIMITS=$HAL_LIMITS,cpu=0 watch groups 900 run_cases tests/data/{onnx,recipes,own}
if [ -n "$(find "$work/logs" -type f -size +0)" ]; then
    echo "oclgrind says:"
    head -n 200 "$work"/logs/*
    exit 1
fi
exit $rc
