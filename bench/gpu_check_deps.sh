#!/usr/bin/env bash
# Fetch what bench/gpu_check.sh may need on a machine without a network, as .deb files, into FOLDER (default: gpu_deps).
# Run it beforehand on a Debian or Ubuntu with a network, and give the folder to gpu_check.sh as HAL_DEPS_DIR.
#
#   bench/gpu_check_deps.sh [FOLDER]
set -euo pipefail
folder=${1:-gpu_deps}
packages=(libcmocka0 libcmocka-dev libcjson1 libcjson-dev libxxhash-dev opencl-c-headers opencl-headers
    ocl-icd-libopencl1 libvulkan1 libvulkan-dev glslang-tools libshaderc1)
command -v apt-get >/dev/null || { echo "gpu_check_deps: needs apt-get" >&2; exit 1; }
mkdir -p "$folder"
cd "$folder"
for package in "${packages[@]}"; do
    if compgen -G "${package}_*.deb" >/dev/null; then continue; fi
    apt-get -q download "$package" || { echo "gpu_check_deps: no package $package" >&2; exit 1; }
done
echo "gpu_check_deps: $(find . -name '*.deb' | wc -l) packages, $(du -sh . | cut -f1) in $PWD"
