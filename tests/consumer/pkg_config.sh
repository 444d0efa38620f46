#!/bin/sh
# Build and run the application with the plain compiler and pkg-config only: pkg_config.sh PREFIX SOURCES OUT KIND CC
set -eu
prefix=$1 sources=$2 out=$3 kind=$4 cc=$5
pc=$(find "$prefix" -name hal.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
libdir=$(pkg-config --variable=libdir hal)
mkdir -p "$out"

check_needed() { # the drivers are loaded at run time, never linked
    needed=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    for name in $needed; do
        case $name in
        libOpenCL* | libvulkan* | libcuda* | libshaderc* | libnvrtc*) echo "$1 links to $name"; exit 1 ;;
        esac
    done
}

# shellcheck disable=SC2046
case $kind in
shared)
    "$cc" -Wall -Wextra -Werror -o "$out/app" "$sources/app.c" $(pkg-config --cflags --libs hal)
    readelf -d "$out/app" | grep -q 'NEEDED.*libhal\.so\.0' || { echo "not linked to libhal.so.0"; exit 1; }
    check_needed "$libdir/libhal.so.0"
    ;;
static)
    "$cc" -Wall -Wextra -Werror -o "$out/app" "$sources/app.c" $(pkg-config --cflags hal) "$libdir/libhal.a" \
        $(pkg-config --static --libs-only-l hal | sed 's/-lhal//') -pthread
    check_needed "$out/app"
    ;;
cxx) # the headers in C++, a program with the macros, and one that fills the descriptors by hand, as before C++20
    for standard in c++11 c++17; do
        "$cc" -std=$standard -Wall -Wextra -Wpedantic -Werror -fsyntax-only $(pkg-config --cflags hal) "$sources/app.cpp"
    done
    "$cc" -std=c++20 -Wall -Wpedantic -Werror -o "$out/app20" "$sources/app20.cpp" $(pkg-config --cflags --libs hal)
    LD_LIBRARY_PATH=$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$out/app20"
    "$cc" -std=c++17 -o "$out/app" "$sources/app.cpp" $(pkg-config --cflags --libs hal)
    ;;
readme) # the C program in README.md
    # shellcheck disable=SC2016
    sed -n '/^```c$/,/^```$/{/^```/!p;/^```$/q}' "$sources/../../README.md" >"$out/readme.c"
    [ -s "$out/readme.c" ] || { echo "README.md has no C block"; exit 1; }
    "$cc" -std=c11 -Wall -Wextra -Werror -o "$out/app" "$out/readme.c" $(pkg-config --cflags --libs hal)
    ;;
esac
LD_LIBRARY_PATH=$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$out/app"
