#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need clang
configure_build werror -DCMAKE_C_COMPILER=clang -DCMAKE_C_FLAGS=-Werror
