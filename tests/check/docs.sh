#!/bin/sh
# docs.sh ROOT - what the documents point at exists: files behind relative links, conformance cases, environment variables.
# shellcheck disable=SC2013,SC2016
set -eu
cd "$1"
status=0
for page in README.md CHANGELOG.md docs/*.md; do
    for link in $(grep -o '](\([^)#]*\)' "$page" | sed 's/^](//' | grep -v '^https\{0,1\}:'); do
        [ -e "$(dirname "$page")/$link" ] || { echo "$page: no $link"; status=1; }
    done
done
for case in $(sed -n '/^| promise/,/^$/p' docs/design.md | grep -o '`[a-z]*\.[a-z_]*`' | tr -d '`'); do
    grep -q "CASE(${case#*.})" "tests/conformance/test_${case%%.*}.c" || { echo "docs/design.md: no case $case"; status=1; }
done
for name in $(grep -rhoE 'getenv\("[A-Z_]+"' hal backends scheduler bench tests/conformance --include=*.c | cut -d'"' -f2 | sort -u); do
    case $name in HOME | XDG_CACHE_HOME | TERM) continue ;; esac
    grep -q "$name" docs/environment.md || { echo "docs/environment.md does not name $name"; status=1; }
done
exit $status
