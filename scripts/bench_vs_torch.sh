#!/usr/bin/env bash
# Runs step_bench and the same work in PyTorch, in Python and through libtorch, in turn, and prints the times and their
# ratios (ours / theirs).
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
say "compiling the same work against libtorch"
mapfile -t torch_facts < <("$python" -c '
import torch
from torch.utils import cpp_extension
print(cpp_extension.library_paths()[0])
print(int(torch.compiled_with_cxx11_abi()))
print(*cpp_extension.include_paths(), sep="\n")')
torch_lib=${torch_facts[0]}
"${CXX:-g++}" -std=c++20 -O2 -w "-D_GLIBCXX_USE_CXX11_ABI=${torch_facts[1]}" "${torch_facts[@]/#/-isystem}" \
    "$ROOT/test/benchmark/libtorch_step.cc" -o "$results/libtorch_step" \
    "-L$torch_lib" -ltorch -ltorch_cpu -lc10 "-Wl,-rpath,$torch_lib" -Wl,--allow-shlib-undefined
for round in $(seq "$rounds"); do
    say "round $round of $rounds"
    "$ROOT/build/release/bin/step_bench" "$threads" > "$results/ours.$round"
    "${tuning[@]}" "$python" "$ROOT/test/benchmark/torch_step.py" "$threads" > "$results/torch.$round"
    "${tuning[@]}" "$results/libtorch_step" "$threads" > "$results/libtorch.$round"
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
ours, python, libtorch = medians("ours"), medians("torch"), medians("libtorch")
width = max(map(len, ours))
print(f"{'':{width}}  {'ours':>9}  {'PyTorch':>9}  ratio  {'libtorch':>9}  ratio")
for name, time in ours.items():
    columns = [f"{peer[name]:9.2f}  {time / peer[name]:5.2f}" if name in peer else f"{'-':>9}  {'':5}"
               for peer in (python, libtorch)]
    print(f"{name:{width}}  {time:9.2f}  {'  '.join(columns)}".rstrip())
PYTHON
