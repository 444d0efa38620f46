#!/bin/sh
# docs.sh ROOT - what the documents point at exists: files behind relative links, conformance cases, environment variables.
# shellcheck disable=SC2013,SC2016
set -eu
cd "$1"
status=0
cases=$(mktemp)
trap 'rm -f "$cases"' EXIT
for page in README.md CHANGELOG.md docs/*.md; do
    for link in $(grep -o '](\([^)#]*\)' "$page" | sed 's/^](//' | grep -v '^https\{0,1\}:'); do
        [ -e "$(dirname "$page")/$link" ] || { echo "$page: no $link"; status=1; }
    done
done
# The last column of docs/conformance.md: "topic: case, case; topic: case".
sed -n 's/^| .* | \(.*\) |$/\1/p' docs/conformance.md | tr ';' '\n' | sed -n 's/^ *\([a-z]*\): \(.*\)/\1 \2/p' |
    tr -d ',' >"$cases"
while read -r topic names; do
    if [ "$topic" = unit ]; then continue; fi
    for case in $names; do
        case $case in all | and | *[!a-z_]*) break ;; esac # words, not a case
        if [ "$topic" = operators ]; then
            grep -q "cmocka_unit_test($case)" tests/operators/*.c && continue
        else
            grep -q "CASE($case)" tests/conformance/test_"$topic"*.c && continue
        fi
        echo "docs/conformance.md: no case $topic: $case"
        status=1
    done
done <"$cases"
[ "$(wc -l <"$cases")" -gt 20 ] || { echo "docs/conformance.md: its table was not understood"; status=1; }
for name in $(grep -rhoE 'getenv\("[A-Z_]+"' hal backends scheduler bench tests/conformance --include=*.c | cut -d'"' -f2 | sort -u); do
    case $name in HOME | XDG_CACHE_HOME | TERM) continue ;; esac
    grep -q "$name" docs/environment.md || { echo "docs/environment.md does not name $name"; status=1; }
done
exit $status
