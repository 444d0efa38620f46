#!/usr/bin/env bash
# The matrix before a release: ./run check [--list] [--dry-run] [--budget SECONDS] [ROW...]. One script per row in
# rows/, run in the order of the list below (quick ones first; --dry-run only names them); each ends with 0 (pass), 77
# (skipped, the reason is its last line) or anything else (failed). Logs are in build/check/.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
export HAL_ROOT=$root HAL_BUILD=${HAL_BUILD:-$root/build}
logs=$HAL_BUILD/check

rows='
format       clang-format on every C file and header
exports      the library exports what the headers declare, and links to no driver
consumer     an installed libhal used by find_package and pkg-config, from C and C++
ptx          ptxas assembles every CUDA kernel for every target
werror       clang builds everything without a warning
vulkan-sync  Vulkan tests under the validation layer with synchronisation validation
oclgrind     OpenCL tests under oclgrind: bounds, races, invalid calls
threads      thread tests under ThreadSanitizer
pocl-cbs     OpenCL tests with PoCL'\''s cbs work-group method
pocl-loopvec OpenCL tests with PoCL'\''s loopvec work-group method
tidy         clang-tidy on every C file
memory       the suite under AddressSanitizer and UBSan
pocl-repl    OpenCL tests with PoCL'\''s workitemrepl work-group method
'

list() { sed -n 's/^\([a-z][a-z-]*\)  *\(.*\)/  \1\t\2/p' <<<"$rows" | expand -t 18; }
names() { awk 'NF { print $1 }' <<<"$rows"; }

budget=0
dry=""
chosen=()
while [ $# -gt 0 ]; do
    case $1 in
    --list) list; exit 0 ;;
    --budget) budget=${2:?--budget needs seconds}; shift ;;
    --dry-run) dry=1 ;;
    --help | -h) printf 'usage: ./run check [--list] [--dry-run] [--budget SECONDS] [ROW...]\n\nrows:\n'; list; exit 0 ;;
    -*) echo "check: unknown option $1" >&2; exit 2 ;;
    *)
        if [ ! -f "$here/rows/$1.sh" ]; then
            printf 'check: no row "%s"; there are:\n' "$1" >&2
            list >&2
            exit 2
        fi
        chosen+=("$1")
        ;;
    esac
    shift
done
[ ${#chosen[@]} -gt 0 ] || mapfile -t chosen < <(names)
if [ -n "$dry" ]; then
    printf '%s\n' "${chosen[@]}"
    exit 0
fi

mkdir -p "$logs"
start=$SECONDS
table=""
passed=0 failed=0 skipped=0

note() { # NAME RESULT SECONDS REASON
    table+=$(printf '%-13s %-8s %5s  %s' "$1" "$2" "$3" "$4")$'\n'
    printf 'check: %-13s %s (%s s)%s\n' "$1" "$2" "$3" "${4:+: $4}"
    case $2 in
    pass) passed=$((passed + 1)) ;;
    FAILED) failed=$((failed + 1)) ;;
    skipped) skipped=$((skipped + 1)) ;;
    esac
}

run_row() {
    local row=$1 log=$logs/$1.log begin=$SECONDS rc=0 left=86400 took
    if [ "$budget" -gt 0 ]; then
        left=$((budget - (SECONDS - start)))
        if [ "$left" -le 0 ]; then note "$row" skipped 0 "budget of $budget s is spent"; return; fi
    fi
    timeout --kill-after=10 "$left" "$here/rows/$row.sh" >"$log" 2>&1 </dev/null || rc=$?
    took=$((SECONDS - begin))
    case $rc in
    0) note "$row" pass $took "" ;;
    77) note "$row" skipped $took "$(tail -n 1 "$log")" ;;
    124 | 137)
        if [ "$budget" -gt 0 ] && [ $((SECONDS - start)) -ge "$budget" ]; then
            note "$row" skipped $took "stopped: budget of $budget s is spent"
        else
            note "$row" FAILED $took "killed (exit $rc); see $log"
        fi
        ;;
    *)
        note "$row" FAILED $took "$log"
        tail -n 40 "$log" | sed 's/^/    /'
        ;;
    esac
}

for row in "${chosen[@]}"; do run_row "$row"; done

printf '\n%-13s %-8s %5s  %s\n%s' row result s "reason or log" "$table"
printf '\n%d passed, %d failed, %d skipped\n' $passed $failed $skipped
[ $failed -eq 0 ]
