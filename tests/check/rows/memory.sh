#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
mkdir -p "$HAL_BUILD/check"
keep=$HAL_BUILD/check/keep_libraries.o
cc -c -o "$keep" tests/check/keep_libraries.c
configure_build memory -DHAL_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    "-DCMAKE_EXE_LINKER_FLAGS=$keep -Wl,--export-dynamic-symbol=dlclose"
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1
export LSAN_OPTIONS="suppressions=$HAL_ROOT/tests/check/lsan.supp:print_suppressions=0"
export UBSAN_OPTIONS=print_stacktrace=1 HAL_TEST_SLOW=5
# Strict string checks measure megabytes of PTX at each search of ptx_entries; what it plans is planned in other tests.
run_tests "$HAL_BUILD/check/memory" -E '^(bench\.|ptx_entries$)'
