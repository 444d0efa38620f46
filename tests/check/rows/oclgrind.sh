#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need oclgrind
library=$(find /usr/lib /usr/local/lib -name 'liboclgrind-rt-icd.so*' 2>/dev/null | head -n 1)
[ -n "$library" ] || skip "oclgrind's ICD library was not found"
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
mkdir "$cache/vendors"
echo "$library" >"$cache/vendors/oclgrind.icd"
export OCL_ICD_VENDORS=$cache/vendors HAL_CACHE_DIR=
export OCLGRIND_DATA_RACES=1 OCLGRIND_CHECK_API=1 OCLGRIND_QUICK=0 OCLGRIND_LOG=$cache/log
rc=0
run_tests "$HAL_BUILD" -L oclgrind || rc=$?
if [ -s "$cache/log" ]; then
    cat "$cache/log"
    exit 1
fi
exit $rc
