# Sourced by every row: HAL_ROOT and HAL_BUILD are set by check.sh.
# shellcheck shell=bash
set -euo pipefail
cd "$HAL_ROOT"
jobs=$(nproc)

skip() { echo "$*"; exit 77; }
need() { command -v "$1" >/dev/null || skip "$1 is not installed"; }

# configure_build NAME [CMAKE ARGUMENTS]: a build of its own in build/check/NAME.
configure_build() {
    local dir=$HAL_BUILD/check/$1 generator=()
    shift
    if [ ! -e "$dir/CMakeCache.txt" ] && command -v ninja >/dev/null; then generator=(-G Ninja); fi
    cmake -S "$HAL_ROOT" -B "$dir" "${generator[@]}" "$@"
    cmake --build "$dir" --parallel "$jobs"
}

# run_tests DIR [CTEST ARGUMENTS]: no test found is a failure.
run_tests() {
    local dir=$1
    shift
    ctest --test-dir "$dir" --no-tests=error --output-on-failure --no-label-summary "$@"
}

# Every C file and header of the project.
c_files() { git ls-files '*.c' '*.h' 2>/dev/null || find . -path ./build -prune -o -name '*.[ch]' -print; }

# use_pocl METHOD: PoCL makes work-groups of work-items by this method. Binaries of another must not come from a cache:
# PoCL and libhal get folders of their own, and the tests' is cleared.
use_pocl() {
    ls /etc/OpenCL/vendors/*pocl* >/dev/null 2>&1 || skip "PoCL is not installed"
    cache=$(mktemp -d)
    trap 'rm -rf "$cache" "$HAL_BUILD/test-cache"' EXIT
    rm -rf "$HAL_BUILD/test-cache"
    mkdir "$cache/pocl"
    export POCL_WORK_GROUP_METHOD=$1 POCL_CACHE_DIR=$cache/pocl HAL_CACHE_DIR=$cache/hal
}
