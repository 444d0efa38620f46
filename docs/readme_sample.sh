#!/bin/sh
# Put the comparison that ./run bench prints here and now into README.md, between its "sample" marks.
set -eu
cd "$(dirname "$0")/.."
out=$(mktemp)
trap 'rm -f "$out" "$out.md"' EXIT
NO_COLOR=1 ./run bench >"$out" 2>&1
{
    sed '/<!-- sample/q' README.md
    echo '```'
    grep -E '^(libhal [0-9]|vulkan:0: |opencl:0: |cuda:0: )' "$out"
    sed -n '/^comparison/,/^ *$/p' "$out"
    echo '```'
    sed -n '/<!-- end of sample/,$p' README.md
} >"$out.md"
cat "$out.md" >README.md
