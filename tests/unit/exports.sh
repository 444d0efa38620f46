#!/bin/sh
# exports.sh NM READELF LIBRARY HEADER_FOLDER... - the library exports exactly the HAL_API functions of the headers, and
# needs no driver to be loaded.
set -eu
nm=$1 readelf=$2 library=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$nm" -D --defined-only "$library" | awk '{print $3}' | sed 's/@.*//' | sort -u >"$work/exported"
for folder; do grep -hv '#define' "$folder"/*.h; done >"$work/headers"
tr '\n' ' ' <"$work/headers" | grep -o 'HAL_API [^;(]*(' | sed 's/.*[ *]\(hal_[a-z0-9_]*\)($/\1/' | sort -u >"$work/declared"
[ -s "$work/declared" ] && [ -s "$work/exported" ]
status=0
if ! diff "$work/declared" "$work/exported" >"$work/diff"; then
    echo "declared in the headers (<) against exported by the library (>):"
    cat "$work/diff"
    status=1
fi
if [ -n "$readelf" ] && "$readelf" -d "$library" | grep NEEDED | grep -E 'libcuda|libOpenCL|libvulkan'; then
    echo "the library is linked to a driver"
    status=1
fi
[ $status -ne 0 ] || echo "$(wc -l <"$work/exported") functions"
exit $status
