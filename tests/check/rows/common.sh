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
