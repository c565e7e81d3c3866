#!/usr/bin/env bash
# Encodes a text with tokenizer_bench and with tiktoken in turn, one thread each, and prints both speeds and their ratio.
#
#   scripts/bench_vs_tiktoken.sh [--rounds N] PYTHON FOLDER TEXT
#
#   PYTHON    a Python that has tiktoken (pip install tiktoken)
#   FOLDER    where GPT-2's encoder.json and vocab.bpe lie
#   TEXT      a text of some MB in UTF-8
#   --rounds  how often each runs, two seconds at a time (default 3; the best of each counts)
#
# Builds the Release preset first. Both have to give as many tokens.
set -euo pipefail
rounds=3
arguments=()
while [ $# -gt 0 ]; do
    case "$1" in
        --help | -h) sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; exit 0 ;;
        --rounds) rounds=$2; shift 2 ;;
        *) arguments+=("$1"); shift ;;
    esac
done
[ "${#arguments[@]}" -eq 3 ] || { echo "expected PYTHON FOLDER TEXT; see --help" >&2; exit 1; }
python=${arguments[0]}
folder=$(realpath "${arguments[1]}")
text=$(realpath "${arguments[2]}")
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$python" -c 'import tiktoken' || die "$python has no tiktoken"

ensure_packages "${BUILD_PACKAGES[@]}"
configure release
build release "$(number_of_jobs)" tokenizer_bench

ours=() theirs=()
for round in $(seq "$rounds"); do
    say "round $round of $rounds"
    ours+=("$("$ROOT/build/release/bin/tokenizer_bench" "$folder" "$text")")
    theirs+=("$(RAYON_NUM_THREADS=1 "$python" "$ROOT/test/benchmark/tiktoken_encode.py" "$folder" "$text")")
done
paste <(printf '%s\n' "${ours[@]}") <(printf '%s\n' "${theirs[@]}") | awk -F'\t' '
    $1 != $3 { printf "the numbers of tokens differ: %d and %d\n", $1, $3; exit_status = 1 }
    $2 > ours { ours = $2 }
    $4 > theirs { theirs = $4 }
    END {
        printf "%d tokens; infini_train %.1f MB/s, tiktoken %.1f MB/s, ratio %.2f\n", $1, ours, theirs, ours / theirs
        exit exit_status
    }'
