#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need clang-tidy
[ -e "$HAL_BUILD/compile_commands.json" ] || { echo "no compile_commands.json in $HAL_BUILD"; exit 1; }
# The files that this build compiles; generated ones are left out. One a call: of several, version 14 reports a false
# use of an uninitialised va_list.
grep -o '"file": "[^"]*"' "$HAL_BUILD/compile_commands.json" | cut -d'"' -f4 | sort -u | grep -v '/generated/' |
    xargs -P "$jobs" -n 1 clang-tidy -p "$HAL_BUILD" --quiet
