#!/usr/bin/env bash
# Formats all C++ files that git knows with clang-format, as .clang-format says.
#
#   scripts/format.sh [--check]
#
#   --check  changes nothing; prints what differs and stops with status 1 if anything does
#   --help   this text
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

mode=(-i)
case "${1:-}" in
    --help | -h) show_help; exit 0 ;;
    --check) mode=(--dry-run --Werror) ;;
    "") ;;
    *) die "unknown option $1; see --help" ;;
esac

ensure_packages "${FORMAT_PACKAGES[@]}"
mapfile -d '' files < <(tracked_files '*.h' '*.cc' '*.cu' '*.cuh')
say "$(clang-format --version): ${#files[@]} files"
clang-format "${mode[@]}" "${files[@]}"
say "formatted"
