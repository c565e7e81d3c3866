#!/usr/bin/env bash
# Runs clang-tidy, as .clang-tidy says, on the library's and the examples' sources.
#
#   scripts/tidy.sh [FILE...]
#
#   FILE    .cc files to look at; all of infini_train/ and example/ by default
#   --help  this text
set -euo pipefail
caller="$PWD"
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

files=()
for argument in "$@"; do
    case "$argument" in
        --help | -h) show_help; exit 0 ;;
        -*) die "unknown option $argument; see --help" ;;
        *) files+=("$(cd "$caller" && realpath "$argument")") ;;
    esac
done

ensure_packages "${BUILD_PACKAGES[@]}" "${TIDY_PACKAGES[@]}"
# A configuration that clang-tidy can't parse doesn't stop it by itself.
if clang-tidy --dump-config 2>&1 >/dev/null | grep -q 'Error parsing'; then
    die ".clang-tidy: expected a configuration that this clang-tidy parses; see clang-tidy --dump-config"
fi
# Only the compilation database is needed; nothing is built.
configure release >/dev/null
if [[ ${#files[@]} -eq 0 ]]; then
    mapfile -d '' files < <(tracked_files 'infini_train/*.cc' 'example/*.cc')
fi
say "${#files[@]} files"
printf '%s\0' "${files[@]}" |
    xargs -0 -n 1 -P "$(number_of_jobs)" clang-tidy --quiet --warnings-as-errors='*' -p build/release
say "clean"
