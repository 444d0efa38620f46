#!/usr/bin/env bash
# One command for a machine with an NVIDIA card: build with CUDA, run every test suite on CUDA, OpenCL and Vulkan of the
# card, then the bench, in under 9 minutes. Needs a C compiler, CMake and, for the built-in CUDA kernels, nvcc. No network.
#
#   bench/gpu_check.sh [FOLDER]     results go to FOLDER, else $OUT, else gpu_check_results
#
#   HAL_DEPS_DIR    what the machine lacks (headers, cmocka, cJSON, loaders, glslangValidator): a folder of .deb files
#                   made by bench/gpu_check_deps.sh, or a prefix that holds include/, lib/, bin/ or usr/
#   HAL_SPIRV_DIR   NAME.spv of the built-in Vulkan kernels, for where there is no glslangValidator
#   HAL_CHECK_SECONDS  time for everything, 520 by default
#
# A part that is missing is a named skip, never a failure. The last lines are a table; exit status 1 if a part failed.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
results=${1:-${OUT:-gpu_check_results}}
mkdir -p "$results" || exit 1
results=$(cd "$results" && pwd)
work=${HAL_CHECK_WORK:-$(mktemp -d)}
mkdir -p "$work"
deadline=$((SECONDS + ${HAL_CHECK_SECONDS:-520}))
table="" failures=0

left() { echo $((deadline - SECONDS)); }
note() { # NAME RESULT SECONDS TEXT
    table+=$(printf '%-16s %-8s %5s  %s' "$1" "$2" "$3" "$4")$'\n'
    printf 'gpu_check: %-16s %s (%s s) %s\n' "$1" "$2" "$3" "$4"
    if [ "$2" = FAILED ]; then failures=$((failures + 1)); fi
}

# step NAME SECONDS LOG COMMAND...: run within a time box; its last line of output is the table's text.
step() {
    local name=$1 box=$2 log=$3 begin=$SECONDS rc=0 result=pass text
    shift 3
    if [ "$(left)" -lt 5 ]; then note "$name" skipped 0 "no time left"; return 1; fi
    if [ "$box" -gt "$(left)" ]; then box=$(left); fi
    printf '==> %s\n' "$name" >>"$log"
    timeout --kill-after=5 "$box" "$@" >>"$log" 2>&1 </dev/null || rc=$?
    text=$(grep -v '^ *$' "$log" | tail -n 1 | cut -c1-90)
    case $rc in
    0) ;;
    124 | 137) result=FAILED text="not done after $box s" ;;
    *) result=FAILED text="exit $rc: $text" ;;
    esac
    note "$name" $result $((SECONDS - begin)) "$text"
    [ $rc -eq 0 ]
}

# ---- What the machine lacks ------------------------------------------------------------------------------------------
unpack_deb() { # FILE FOLDER, with or without dpkg
    if command -v dpkg >/dev/null; then dpkg -x "$1" "$2"; return; fi
    local part
    part=$(mktemp -d -p "$work") && (cd "$part" && ar x "$1" && cd "$2" && cmake -E tar xf "$part"/data.tar.*)
}

use_deps() {
    local deps=$HAL_DEPS_DIR deb usr lib
    if [ ! -d "$deps" ]; then note dependencies skipped 0 "HAL_DEPS_DIR=$deps is not a folder"; return; fi
    deps=$(cd "$deps" && pwd)
    if compgen -G "$deps/*.deb" >/dev/null; then
        mkdir -p "$work/deps"
        for deb in "$deps"/*.deb; do
            unpack_deb "$deb" "$work/deps" || note dependencies skipped 0 "could not unpack ${deb##*/}"
        done
        deps=$work/deps
    fi
    usr=$deps
    if [ -d "$deps/usr" ]; then usr=$deps/usr; fi
    lib=$usr/lib
    if compgen -G "$usr/lib/*-linux-gnu" >/dev/null; then lib=$(compgen -G "$usr/lib/*-linux-gnu" | head -n 1); fi
    cmake_arguments+=("-DCMAKE_PREFIX_PATH=$usr" "-DCMAKE_INCLUDE_PATH=$usr/include" "-DCMAKE_LIBRARY_PATH=$lib")
    export PATH=$PATH:$usr/bin CPATH=$usr/include${CPATH:+:$CPATH} LIBRARY_PATH=$lib${LIBRARY_PATH:+:$LIBRARY_PATH}
    export LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export PKG_CONFIG_PATH=$lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
    note dependencies used 0 "$deps"
}

# The card's OpenCL and Vulkan drivers where they are not registered in /etc or /usr/share (as in many containers).
first_file() { find "$1" -name "$2" 2>/dev/null | head -n 1; }
find_drivers() {
    local place file
    for place in /usr/local/nvidia /usr/lib/x86_64-linux-gnu /usr/lib64 /usr/lib; do
        if [ -z "${OCL_ICD_VENDORS:-}" ] && ! compgen -G '/etc/OpenCL/vendors/*nvidia*' >/dev/null; then
            file=$(first_file "$place" 'libnvidia-opencl.so*')
            if [ -n "$file" ]; then
                mkdir -p "$work/vendors"
                echo "$file" >"$work/vendors/nvidia.icd"
                cp /etc/OpenCL/vendors/*.icd "$work/vendors/" 2>/dev/null
                export OCL_ICD_VENDORS=$work/vendors
            fi
        fi
        if [ -z "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ] &&
            ! compgen -G '/usr/share/vulkan/icd.d/*nvidia*' >/dev/null && ! compgen -G '/etc/vulkan/icd.d/*nvidia*' >/dev/null; then
            file=$(first_file "$place" 'nvidia_icd*.json')
            if [ -n "$file" ]; then export VK_DRIVER_FILES=$file VK_ICD_FILENAMES=$file; fi
        fi
    done
}

has_program() { command -v "$1" >/dev/null; }
describe_machine() {
    uname -srm
    nproc
    cc --version | head -n 1
    cmake --version | head -n 1
    if has_program nvidia-smi; then nvidia-smi; else echo "nvidia-smi: not found"; fi
    if has_program nvcc; then nvcc --version; else echo "nvcc: not found"; fi
    env | grep -E '^(HAL_|OCL_|VK_|CUDA|LD_LIBRARY_PATH)' | sort
}

# ---- Build -----------------------------------------------------------------------------------------------------------
if ! has_program nvcc && [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin; fi
cmake_arguments=(-DCMAKE_BUILD_TYPE=Release)
if has_program ninja; then cmake_arguments+=(-G Ninja); fi
if [ -n "${HAL_DEPS_DIR:-}" ]; then use_deps; else note dependencies skipped 0 "HAL_DEPS_DIR is not set"; fi
if [ -n "${HAL_SPIRV_DIR:-}" ]; then cmake_arguments+=("-DHAL_SPIRV_DIR=$HAL_SPIRV_DIR"); fi
if has_program nvcc; then cmake_arguments+=(-DHAL_CUDA=ON); else note nvcc skipped 0 "not found: no built-in CUDA kernels"; fi
has_header() { printf '#include <%s>\n' "$1" | cc -E -include stdarg.h -include stddef.h -include setjmp.h -include stdint.h - >/dev/null 2>&1; }
if has_header cmocka.h; then cmake_arguments+=(-DHAL_TESTS=ON); else
    cmake_arguments+=(-DHAL_TESTS=OFF)
    note cmocka skipped 0 "cmocka.h not found: no test suites"
fi
find_drivers
describe_machine >"$results/build.log" 2>&1

build=$work/build
summary() {
    {
        printf '%-16s %-8s %5s  %s\n' part result s "last line or reason"
        printf '%s' "$table"
        printf '%s failed; %s s in all; results in %s\n' "$failures" "$SECONDS" "$results"
    } | tee "$results/summary.txt"
    if [ "$failures" -eq 0 ]; then exit 0; else exit 1; fi
}
step configure 60 "$results/build.log" cmake -S "$root" -B "$build" "${cmake_arguments[@]}" || summary
step build 300 "$results/build.log" cmake --build "$build" --parallel "$(nproc)" || summary
export PATH=$build/bin:$PATH HAL_CACHE_DIR=$work/cache

# ---- Tests and bench on what there is --------------------------------------------------------------------------------
devices=$results/devices.txt
step devices 30 "$devices" "$build/bin/hal-bench" devices
has_backend() { grep -qE "^ *$1:[0-9]" "$devices"; }
for backend in cuda opencl vulkan; do
    if ! has_backend $backend; then
        note "tests $backend" skipped 0 "no $backend device here; see devices.txt"
        continue
    fi
    export HAL_BACKEND=$backend
    box=100
    if [ $backend = cuda ]; then box=240; fi # the card is what this is about
    if [ -e "$build/tests/CTestTestfile.cmake" ]; then
        step "tests $backend" $box "$results/tests-$backend.log" ctest --test-dir "$build" --no-tests=error \
            --output-on-failure --no-label-summary --timeout 60 -R "[.]$backend([.]|\$)" # not .cuda_sim
    fi
    unset HAL_BACKEND
done
# Asynchronous matrix units against the others, where the card has both.
if has_backend cuda && HAL_BACKEND=cuda "$build/bin/hal-bench" devices --verbose | grep '^ *has  ' | grep -q async_matrix; then
    product=("$build/bin/hal-bench" gemm --backend cuda --m 4096 --n 12288 --k 4096 --dtype bf16 --quick)
    took() { awk '$1 == "gemm" { print $4, $5; exit }' "$results/$1.log"; }
    step gemm_async 40 "$results/gemm_async.log" "${product[@]}" &&
        step gemm_mma 40 "$results/gemm_mma.log" env HAL_LIMITS=async_matrix=0 "${product[@]}" &&
        note "async matrix" compared 0 "gemm_async $(took gemm_async), gemm_mma $(took gemm_mma)"
fi
step bench 180 "$results/bench.log" "$build/bin/hal-bench" --json "$results/bench.json"
summary
