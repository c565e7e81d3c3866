#!/usr/bin/env bash
# Runs step_bench and the same work in PyTorch in turn, and prints both times and their ratio (ours / PyTorch's).
#
#   scripts/bench_vs_torch.sh [--rounds N] [--threads N] [--plain] PYTHON
#
#   PYTHON     a Python that has PyTorch
#   --rounds   how often each runs (default 3; the medians are printed)
#   --threads  threads of the training steps (default 2)
#   --plain    PyTorch as it comes; by default it gets what speeds it up: an allocator that keeps its pages, huge pages,
#              bound threads
#
# Builds the Release preset first. Timings need a quiet machine: look at the ratios, not at the times.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

rounds=3 threads=2 tuned=1 python=
while [ $# -gt 0 ]; do
    case "$1" in
        --help | -h) show_help; exit 0 ;;
        --rounds) rounds=$2; shift 2 ;;
        --threads) threads=$2; shift 2 ;;
        --plain) tuned=0; shift ;;
        -*) die "unknown option $1; see --help" ;;
        *) python=$1; shift ;;
    esac
done
[ -n "$python" ] || die "say which Python has PyTorch; see --help"
"$python" -c 'import torch' || die "$python has no PyTorch"

ensure_packages "${BUILD_PACKAGES[@]}"
configure release
build release "$(number_of_jobs)" step_bench

tuning=()
if [ "$tuned" = 1 ]; then
    tuning=(env MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=68719476736
        GLIBC_TUNABLES=glibc.malloc.hugetlb=1 "OMP_NUM_THREADS=$threads" OMP_PROC_BIND=true)
fi
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
for round in $(seq "$rounds"); do
    say "round $round of $rounds"
    "$ROOT/build/release/bin/step_bench" "$threads" > "$results/ours.$round"
    "${tuning[@]}" "$python" "$ROOT/test/benchmark/torch_step.py" "$threads" > "$results/torch.$round"
done
"$python" - "$results" <<'PYTHON'
import glob
import statistics
import sys

import torch


def medians(kind):
    runs = {}
    for path in glob.glob(f"{sys.argv[1]}/{kind}.*"):
        for line in open(path):
            name, time = line.rstrip("\n").split("\t")
            runs.setdefault(name, []).append(float(time))
    return {name: statistics.median(times) for name, times in runs.items()}


cpu = next((line.split(": ", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
print(f"{cpu}, {torch.backends.cpu.get_cpu_capability()}, PyTorch {torch.__version__}; microseconds")
ours, theirs = medians("ours"), medians("torch")
width = max(map(len, ours))
print(f"{'':{width}}  {'ours':>9}  {'PyTorch':>9}  ratio")
for name in ours:
    print(f"{name:{width}}  {ours[name]:9.2f}  {theirs[name]:9.2f}  {ours[name] / theirs[name]:5.2f}")
PYTHON
