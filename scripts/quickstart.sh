#!/usr/bin/env bash
# From a fresh checkout to a trained network: installs what is missing, builds an example in Release, and trains it.
#
#   scripts/quickstart.sh [mnist's own options...]
#   scripts/quickstart.sh gpt2 [FILE] [gpt2's own options...]
#
#   --help  this text
#
# Without a name: mnist on Fashion-MNIST (60,000 real images, from Debian's package dataset-fashion-mnist), in about a
# minute. gpt2: a small GPT-2 learns the characters of a text, the King James Bible (from Debian's package bible-kjv) or
# any FILE, in about two minutes on two cores, and then writes by itself.
#
# The options come after the defaults and win: `scripts/quickstart.sh --num_epoch=1`. Results go to build/quickstart.
set -euo pipefail
start="$PWD"
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

case "${1:-}" in
    --help | -h) show_help; exit 0 ;;
esac

results="$ROOT/build/quickstart"
example=mnist
if [[ "${1:-}" == mnist || "${1:-}" == gpt2 ]]; then
    example="$1"
    shift
fi

ensure_packages "${BUILD_PACKAGES[@]}"
if [[ "$example" == gpt2 ]]; then
    text=kjv
    results="$results/gpt2"
    if [[ -n "${1:-}" && "$1" != -* ]]; then
        text="$(cd "$start" && realpath -- "$1")"
        [[ -f "$text" ]] || die "no such file: $1"
        shift
    else
        ensure_packages "bible-kjv command:bible" "bible-kjv-text file:/usr/lib/bible.data"
    fi
    arguments=(--text="$text" --out="$results" --save="$results/model" --sequence_length=128 --batch_size=16
        --num_iteration=1200 --val_max_steps=50 --text_length=500)
    about="the text $text"
else
    dataset=/usr/share/datasets/fashion-mnist
    arguments=(--dataset="$dataset" --out="$results")
    about="$dataset"
fi
configure release
build release "$(number_of_jobs)" "$example"
mkdir -p "$results"
say "training on $about"
"$ROOT/build/release/bin/$example" "${arguments[@]}" "$@"
say "results are in $results:"
ls -l "$results"
