#!/usr/bin/env bash
# Trains GPT-2 124M for a few steps, here and in PyTorch from the same weights and tokens, in turn. Prints the times of a
# step, the peak memory, their ratios (ours / theirs), and how far the losses are apart.
#
#   scripts/bench_gpt2.sh [--batch N] [--length N] [--steps N] [--rounds N] [--threads N] PYTHON
#
#   PYTHON     a Python that has PyTorch
#   --batch    sequences in a step (default 4)
#   --length   tokens in a sequence (default 64)
#   --steps    steps of a run, the first two of which aren't timed (default 10)
#   --rounds   how often each runs (default 3; the medians are printed)
#   --threads  of either side (default 2)
#
# PyTorch runs twice: tuned (an allocator that keeps its pages, huge pages, bound threads) and plain, as it comes; both
# with fused AdamW and fused attention. Needs 5 GiB of memory and a quiet machine: look at the ratios, not at the times.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

batch=4 length=64 steps=10 rounds=3 threads=2 python=
while [ $# -gt 0 ]; do
    case "$1" in
        --help | -h) show_help; exit 0 ;;
        --batch) batch=$2; shift 2 ;;
        --length) length=$2; shift 2 ;;
        --steps) steps=$2; shift 2 ;;
        --rounds) rounds=$2; shift 2 ;;
        --threads) threads=$2; shift 2 ;;
        -*) die "unknown option $1; see --help" ;;
        *) python=$1; shift ;;
    esac
done
[ -n "$python" ] || die "say which Python has PyTorch; see --help"
"$python" -c 'import torch' || die "$python has no PyTorch"
[ "$steps" -gt 2 ] || die "expected --steps above 2, got $steps"

ensure_packages "${BUILD_PACKAGES[@]}"
configure release
build release "$(number_of_jobs)" gpt2_step_bench

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
peer="$ROOT/test/benchmark/torch_gpt2_step.py"
"$python" "$peer" "$folder" "$threads" make "$batch" "$length" "$steps"
tuning=(env MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=68719476736
    GLIBC_TUNABLES=glibc.malloc.hugetlb=1 "OMP_NUM_THREADS=$threads" OMP_PROC_BIND=true)
for round in $(seq "$rounds"); do
    say "round $round of $rounds"
    "$ROOT/build/release/bin/gpt2_step_bench" "$folder" "$threads" > "$folder/ours.$round"
    "${tuning[@]}" "$python" "$peer" "$folder" "$threads" run > "$folder/tuned.$round"
    "$python" "$peer" "$folder" "$threads" run > "$folder/plain.$round"
done
"$python" - "$folder" "B=$batch T=$length" <<'PYTHON'
import glob
import statistics
import sys

import torch


def read(kind):
    runs = []
    for path in sorted(glob.glob(f"{sys.argv[1]}/{kind}.[0-9]*")):
        run = {}
        for line in open(path):
            name, value = line.split("\t")
            run.setdefault(name, []).append(float(value))
        runs.append(run)
    return runs


def median(runs, name):
    return statistics.median(run[name][0] for run in runs)


cpu = next((line.split(": ", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
print(f"GPT-2 124M, {sys.argv[2]}, {cpu}, {torch.backends.cpu.get_cpu_capability()}, PyTorch {torch.__version__}")
ours = read("ours")
print(f"{'':15}  {'ms a step':>9}  {'ratio':>5}  {'peak MiB':>8}  {'ratio':>5}")
for title, kind in (("ours", "ours"), ("PyTorch, tuned", "tuned"), ("PyTorch, plain", "plain")):
    runs = read(kind)
    ms, peak = median(runs, "ms"), median(runs, "peak_mib")
    print(f"{title:15}  {ms:9.0f}  {median(ours, 'ms') / ms:5.2f}  {peak:8.0f}  {median(ours, 'peak_mib') / peak:5.2f}")
pairs = list(zip(ours[0]["loss"], read("tuned")[0]["loss"]))
print(f"losses of {len(pairs)} steps: at most {max(abs(a - b) / b for a, b in pairs):.1e} apart (relative); "
      f"the last ones {pairs[-1][0]:.6f} and {pairs[-1][1]:.6f}")
PYTHON
