#!/usr/bin/env bash
# From a fresh checkout to a trained network: installs what is missing, builds the mnist example in Release, and trains
# it on Fashion-MNIST (60,000 real images, from Debian's package dataset-fashion-mnist) for about a minute.
#
#   scripts/quickstart.sh [mnist's own options...]
#
#   --help  this text
#
# The options come after the defaults and win: `scripts/quickstart.sh --num_epoch=1`. Results go to build/quickstart.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case "${1:-}" in
    --help | -h) show_help; exit 0 ;;
esac

dataset=/usr/share/datasets/fashion-mnist
results="$ROOT/build/quickstart"

ensure_packages "${BUILD_PACKAGES[@]}"
configure release
build release "$(number_of_jobs)" mnist
mkdir -p "$results"
say "training on $dataset"
"$ROOT/build/release/bin/mnist" --dataset="$dataset" --out="$results" "$@"
say "results are in $results:"
ls -l "$results"
