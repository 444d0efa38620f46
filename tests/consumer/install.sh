#!/bin/sh
# Install the build folder $1 and move the result to $2: whatever depends on the first place shows in the tests after it.
set -eu
cmake=$1 build=$2 prefix=$3
rm -rf "$prefix" "$prefix.first"
"$cmake" --install "$build" --prefix "$prefix.first"
mv "$prefix.first" "$prefix"
for file in include/hal/hal.h include/hal/ops.h; do
    [ -f "$prefix/$file" ] || { echo "not installed: $file"; exit 1; }
done
for name in libhal.so.0 libhal.so libhal.a hal.pc halConfig.cmake LICENSE; do
    [ -n "$(find "$prefix" -name "$name")" ] || { echo "not installed: $name"; exit 1; }
done
# No internal header, and no text with the folder of the build or the sources.
if find "$prefix/include" -name backend.h -o -name core.h -o -name internal.h | grep .; then
    echo "internal headers were installed"
    exit 1
fi
if grep -rIl -e "$build" "$prefix"; then
    echo "these installed files name the build folder"
    exit 1
fi
