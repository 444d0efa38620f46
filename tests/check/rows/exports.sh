#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
library=$(find "$HAL_BUILD" -maxdepth 1 -name 'libhal.so.0')
[ -n "$library" ] || { echo "no libhal.so.0 in $HAL_BUILD"; exit 1; }
exported=$(nm -D --defined-only "$library" | awk '{ print $3 }')
[ "$(grep -c '^hal_' <<<"$exported")" -gt 50 ] || { echo "hardly any hal_* symbol is exported"; exit 1; }
if grep -v '^hal_' <<<"$exported"; then echo "^ exported, but not hal_*"; exit 1; fi
# What the headers declare is what the library exports: nothing missing, nothing more.
declared=$(cat hal/include/hal/*.h scheduler/include/hal/*.h | tr '\n' ' ' |
    grep -oE 'HAL_API [^;(]*\bhal_[a-z0-9_]+ *\(' | grep -oE 'hal_[a-z0-9_]+ *\($' | tr -d ' (' | sort -u)
diff <(sort -u <<<"$exported") <(echo "$declared") || { echo "^ exported (<) against declared in the headers (>)"; exit 1; }
if readelf -d "$library" | grep -E 'NEEDED.*(OpenCL|vulkan|libcuda|shaderc|nvrtc)'; then echo "^ linked"; exit 1; fi
readelf -d "$library" | grep -q 'SONAME.*\[libhal\.so\.0\]' || { echo "the soname is not libhal.so.0"; exit 1; }
