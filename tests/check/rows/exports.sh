#!/usr/bin/env bash
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
run_tests "$HAL_BUILD" -R exports
