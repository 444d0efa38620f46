#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need clang-format
clang-format --version
c_files | xargs clang-format --dry-run -Werror
