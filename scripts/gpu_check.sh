#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: builds for it, runs everything that needs one, and writes what came of it to
# docs/gpu-runs/DATE-DEVICE.md.
#
#   scripts/gpu_check.sh [--quick] [--rounds N] [PYTHON]
#
#   PYTHON     a Python that has PyTorch with CUDA, for the comparison; without one our own times stand alone
#   --quick    no compute-sanitizer, each test once, a small GPT-2
#   --rounds   how often each test runs to find races (default 20)
#   --help     this text
#
# In turn: the whole suite, the tests of the GPU with a skip counted as a failure, again and again, then under the four
# tools of compute-sanitizer; a short training of both trainers here and on the CPU; operators against the device's own
# speed; steps of GPT-2 124M in float32, TF32 and bfloat16. Goes on after a failure, and ends with status 1 if there was one.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

rounds=20 quick=0 python=
while [[ $# -gt 0 ]]; do
    case "$1" in
        --help | -h) show_help; exit 0 ;;
        --quick) quick=1 rounds=1; shift ;;
        --rounds) rounds="${2:?--rounds: expected a number}"; shift 2 ;;
        -*) die "unknown option $1; see --help" ;;
        *) python="$1"; shift ;;
    esac
done
command -v nvidia-smi >/dev/null || die "there is no nvidia-smi here, and so no NVIDIA driver: this script needs a GPU"
[[ -z "$python" ]] || "$python" -c 'import torch; assert torch.cuda.is_available()' || die "$python has no PyTorch that sees a GPU"

device="$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)"
capability="$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)"
results="$ROOT/build/gpu_check"
report="$ROOT/docs/gpu-runs/$(date +%F)-$(tr -cs 'A-Za-z0-9\n' '-' <<<"$device" | sed 's/-*$//').md"
rm -rf "$results"
mkdir -p "$results" "$(dirname "$report")"
failures=0

write() { printf '%s\n' "$*" >>"$report"; }

# check NAME COMMAND...: runs it, its output in a log, and notes whether it passed, and how long it took.
check() {
    local name="$1" log start
    log="$results/$(tr -cs 'A-Za-z0-9\n' '_' <<<"$1").log"
    shift
    say "$name"
    start=$SECONDS
    if "$@" >"$log" 2>&1; then
        write "| $name | passed | $((SECONDS - start)) s |"
    else
        write "| $name | **failed** | $((SECONDS - start)) s |"
        failures=$((failures + 1))
        tail -20 "$log" >&2
    fi
}

ensure_packages "${BUILD_PACKAGES[@]}"
configure release -DINFINI_TRAIN_USE_CUDA=ON "-DCMAKE_CUDA_ARCHITECTURES=$capability"
build release "$(number_of_jobs)"

: >"$report"
write "# $device, $(date +%F)"
write ""
write "Commit $(git -c safe.directory="$ROOT" rev-parse --short HEAD), driver $(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1), $(nvcc --version | sed -n 's/.*release \([^,]*\),.*/CUDA \1/p'), compiled for sm_$capability. Written by \`scripts/gpu_check.sh\`."
write ""
write "| check | result | time |"
write "|---|---|---|"

export INFINI_TRAIN_REQUIRE_GPU=1
cuda_test="$ROOT/build/release/test/cuda/cuda_test"
check "the whole suite" ctest --preset release --parallel "$(number_of_jobs)"
check "tests of the GPU" "$cuda_test" --gtest_brief=1
check "tests of the GPU, $rounds times" "$cuda_test" --gtest_brief=1 --gtest_repeat="$rounds" --gtest_shuffle
check "tests of the GPU, kernels waited for" env INFINI_TRAIN_SYNC_KERNELS=1 "$cuda_test" --gtest_brief=1
check "hooks, their tensors on the GPU" env INFINI_TRAIN_TEST_DEVICE=cuda "$ROOT/build/release/test/hook/hook_test" --gtest_brief=1
if [[ $quick -eq 0 ]]; then
    for tool in memcheck racecheck initcheck synccheck; do
        # Blocks of their own, so that bounds are exact.
        check "compute-sanitizer, $tool" env INFINI_TRAIN_CUDA_CACHE=0 compute-sanitizer --tool "$tool" --error-exitcode 1 \
            "$cuda_test" --gtest_brief=1 --gtest_filter='*Float32/*:*Statistics*:*Streams*:*TrainingOnGpu*'
    done
fi

# Short trainings, here and on the CPU, whose last lines agree.
mnist=(--dataset=/usr/share/datasets/fashion-mnist --num_epoch=1)
gpt2=(--text="$ROOT/README.md" --model=d2 --sequence_length=64 --batch_size=4 --num_iteration=100)
for place in cpu cuda; do
    check "mnist on $place" "$ROOT/build/release/bin/mnist" "${mnist[@]}" --device="$place" --out="$results/mnist-$place"
    check "gpt2 on $place" "$ROOT/build/release/bin/gpt2" "${gpt2[@]}" --device="$place" --out="$results/gpt2-$place"
done
# same COLUMN TOLERANCE EXAMPLE: the last line of its two histories.
same() {
    local of_cpu of_cuda
    of_cpu="$(tail -n 1 "$results/$3-cpu/history.csv" | cut -d, -f"$1")" || return 1
    of_cuda="$(tail -n 1 "$results/$3-cuda/history.csv" | cut -d, -f"$1")" || return 1
    echo "$of_cpu on the CPU, $of_cuda on the GPU"
    awk -v a="$of_cpu" -v b="$of_cuda" -v most="$2" 'BEGIN { exit !(a != "" && b != "" && a - b < most && b - a < most) }'
}
check "mnist: the same accuracy, to a percent" same 5 0.01 mnist
check "gpt2: the same loss, to 0.05" same 3 0.05 gpt2

write ""
write "## Operators"
write ""
write "| operator | ms | rate | of the device's own |"
write "|---|---|---|---|"
if "$ROOT/build/release/bin/device_bench" cuda >"$results/operators.tsv"; then
    sed 's/\t/ | /g; s/^/| /; s/$/ |/' "$results/operators.tsv" >>"$report"
else
    write "| **failed** | | | |"
    failures=$((failures + 1))
fi

write ""
write "## GPT-2 124M"
write ""
write "| dtype | B x T | tokens a second | PyTorch | ours / theirs | peak MiB | PyTorch |"
write "|---|---|---|---|---|---|---|"
batch=32 length=1024 layers=12
[[ $quick -eq 1 ]] && batch=2 layers=2
if [[ -n "$python" ]]; then
    step="$ROOT/test/benchmark/torch_gpt2_step.py"
    "$python" "$step" "$results" 2 make "$batch" "$length" 8 "$layers"
    of() { awk -F'\t' -v key="$2" '$1 == key { print $2 }' "$1"; }
    for dtype in float32 tf32 bfloat16; do
        ours="$results/ours.$dtype" theirs="$results/theirs.$dtype"
        INFINI_TRAIN_TF32=$([[ $dtype == tf32 ]] && echo 1 || echo 0) \
            "$ROOT/build/release/bin/gpt2_step_bench" "$results" 2 cuda "${dtype/tf32/float32}" >"$ours" || failures=$((failures + 1))
        "$python" "$step" "$results" 2 run cuda "$dtype" >"$theirs" || failures=$((failures + 1))
        write "| $dtype | $batch x $length | $(awk -v ms="$(of "$ours" ms)" -v n=$((batch * length)) 'BEGIN { printf "%.0f | ", n / ms * 1e3 }')$(
            awk -v ms="$(of "$theirs" ms)" -v ours="$(of "$ours" ms)" -v n=$((batch * length)) 'BEGIN { printf "%.0f | %.2f", n / ms * 1e3, ms / ours }'
        ) | $(of "$ours" peak_mib) | $(of "$theirs" peak_mib) |"
    done
else
    write "| not run: no Python with PyTorch was given | | | | | | |"
fi
say "the report is $report"
[[ $failures -eq 0 ]] || die "$failures checks failed; the logs are in $results"
