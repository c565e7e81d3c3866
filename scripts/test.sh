#!/usr/bin/env bash
# Builds the library with its tests and runs them.
#
#   scripts/test.sh [--preset release|debug|asan-ubsan|tsan] [--werror] [--jobs N] [ctest's own options...]
#
#   --preset NAME  what to build, into build/NAME; release by default
#   --werror       compiler warnings are errors
#   --jobs N       how many compilations and tests run at once; by default one a core
#   --help         this text
#
# Everything else goes to ctest: `scripts/test.sh -L hook` runs the tests with the label "hook", `-R Matmul` those whose
# name matches, `-LE install` all but the install test. Missing packages are installed first where apt and root allow.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

preset=release
werror=OFF
jobs="$(number_of_jobs)"
ctest_arguments=()
while [[ $# -gt 0 ]]; do
    case "$1" in
        --help | -h) show_help; exit 0 ;;
        --preset) preset="${2:?--preset: expected a name}"; shift 2 ;;
        --preset=*) preset="${1#*=}"; shift ;;
        --werror) werror=ON; shift ;;
        --jobs) jobs="${2:?--jobs: expected a number}"; shift 2 ;;
        --jobs=*) jobs="${1#*=}"; shift ;;
        *) ctest_arguments+=("$1"); shift ;;
    esac
done

ensure_packages "${BUILD_PACKAGES[@]}"
configure "$preset" "-DINFINI_TRAIN_WERROR=$werror"
build "$preset" "$jobs"
say "testing build/$preset"
ctest --preset "$preset" --parallel "$jobs" ${ctest_arguments[@]+"${ctest_arguments[@]}"}
