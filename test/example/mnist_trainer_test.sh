#!/usr/bin/env bash
# Runs the mnist trainer as a user would, on a small data set made here: 8 x 8 images of ten noisy patterns.
#
#   mnist_trainer_test.sh MNIST WORK    the program, and a folder of the test's own
set -euo pipefail
program=$1
work=$2
source "$(dirname "${BASH_SOURCE[0]}")/program_checks.sh"

# field COLUMN FILE: of the last line of a history.
field() {
    tail -n 1 "$2" | cut -d, -f"$1"
}

expect_at_least() {
    awk -v low="$1" -v value="$2" 'BEGIN { exit !(value >= low) }' || fail "expected at least $1, got '$2'"
    checks=$((checks + 1))
}

big_endian() {
    local number
    for number in "$@"; do
        printf '\\x%02x\\x%02x\\x%02x\\x%02x' $((number >> 24 & 255)) $((number >> 16 & 255)) $((number >> 8 & 255)) \
            $((number & 255))
    done
}

# write_split PREFIX COUNT SEED: images of class i mod 10, in the IDX format.
write_split() {
    local prefix=$1 count=$2 state=$3 images labels i p label
    images=$(big_endian 2051 "$count" 8 8)
    labels=$(big_endian 2049 "$count")
    for ((i = 0; i < count; ++i)); do
        label=$((i % 10))
        labels+=$(printf '\\x%02x' "$label")
        local pixels=()
        for ((p = 0; p < 64; ++p)); do
            state=$(((state * 1103515245 + 12345) & 0x7fffffff))
            pixels+=($(((p * (label + 3) % 11 < 4 ? 150 : 0) + (state >> 16) % 100)))
        done
        images+=$(printf '\\x%02x' "${pixels[@]}")
    done
    printf %b "$images" >"data/$prefix-images-idx3-ubyte"
    printf %b "$labels" >"data/$prefix-labels-idx1-ubyte"
}

rm -rf "$work"
mkdir -p "$work/data"
cd "$work"
write_split train 300 1
write_split t10k 100 2

# ---- The command line -----------------------------------------------------------------------------------------------

expect_run 0 --help
for text in "Usage: mnist [flags]" --dataset --num_epoch --watch "Examples:"; do
    expect_output "$text"
done
expect_run 0 --version
grep -qxE 'mnist [0-9]+\.[0-9]+\.[0-9]+' output || fail "expected the name and a version"
expect_run 2 --num_epochs=3
expect_output "unknown flag --num_epochs; did you mean --num_epoch?"
expect_output "mnist --help"
expect_run 2 --bs=0
expect_output "flag --bs: expected a number above 0, got 0"
expect_run 2 --model=lennet
expect_output "did you mean 'lenet'?"
expect_run 1 --dataset=nowhere
expect_output "expected a folder with the data set at 'nowhere', got nothing there"
[ ! -e history.csv ] || fail "a run that failed left a history"

# ---- Training -------------------------------------------------------------------------------------------------------

small=(--dataset=data --hidden=64 --bs=10 --lr=0.01)
expect_run 0 "${small[@]}" --num_epoch=1 --threads=1 --out=one --save=weights.safetensors
expect_output "Epoch 1/1"
expect_same "the header" "$(head -n 1 one/history.csv)" \
    "epoch,train_loss,train_accuracy,test_loss,test_accuracy,seconds"
expect_same "the number of epochs" "$(field 1 one/history.csv)" 1
expect_at_least 0.5 "$(field 3 one/history.csv)"
expect_at_least 0.9 "$(field 5 one/history.csv)"
expect_same "the picture's first bytes" "$(head -c 4 one/history.png | tail -c 3)" PNG

# The weights say the same once they are read again.
accuracy=$(grep -oE 'accuracy [0-9.]+ %' output | tail -n 1)
answers=$(sed -n '/Epoch/,$p' output | grep -vE 'Epoch|test:|history:|weights:')
expect_run 0 "${small[@]}" --num_epoch=0 --load=weights.safetensors --out=loaded
loaded=$(cat output)
expect_at_least 1 "$(grep -c . <<<"$answers")"
[[ $loaded == *"$answers"* ]] || fail "expected the same answers as before --save ($accuracy)"
checks=$((checks + 1))

# The same seed gives the same run on any number of threads, another seed another one.
for threads in 1 2; do
    expect_run 0 "${small[@]}" --num_epoch=2 --threads=$threads --out=threads$threads
done
expect_same "the runs on 1 and 2 threads" "$(cut -d, -f1-5 threads1/history.csv)" "$(cut -d, -f1-5 threads2/history.csv)"
expect_run 0 "${small[@]}" --num_epoch=2 --seed=7 --out=seed
[ "$(field 2 seed/history.csv)" != "$(field 2 threads1/history.csv)" ] || fail "two seeds gave the same loss"
expect_run 0 --dataset=data --bs=50 --num_epoch=1 --out=others --model=mlp512 --optimizer=sgd --lr_schedule=constant --watch \
    --watch_every=5 --watch_csv=layers.csv --tensorboard=board --report=report.html
expect_output "gradient rms"
grep -q '^0,output,1,Linear,25600,' layers.csv || fail "expected the first layer's outputs of batch 0"
grep -q '"name":"5.weight"' report.html || fail "expected the last layer's weight in the report"
[ -s board/events.out.tfevents.* ] || fail "expected an event file"
expect_run 0 --dataset=data --bs=10 --num_epoch=1 --out=profiled --summary --profile=trace.json
expect_output "FLOPs"
expect_output "backward"
grep -q '"traceEvents"' trace.json || fail "expected a trace"
expect_run 0 --dataset=data --bs=50 --num_epoch=1 --out=cycle --lr_schedule=one_cycle

# Two runs with one seed compute the same, and nothing that isn't finite; a run that blows up says where.
expect_run 0 "${small[@]}" --num_epoch=1 --out=checked --nan_guard --precision_check=level=2,path=run1,max_steps=2
expect_run 0 "${small[@]}" --num_epoch=1 --out=checked --precision_check=level=2,path=,max_steps=2,baseline=run1
expect_output "identical, 0 within the tolerance, 0 outside"
expect_run 1 "${small[@]}" --num_epoch=1 --out=checked --optimizer=sgd --lr=1e30 --nan_guard
expect_output "NanGuard: "
expect_run 2 "${small[@]}" --precision_check=levels=2
expect_output "unknown key 'levels'"

# ---- Ctrl-C ---------------------------------------------------------------------------------------------------------

expect_clean_stop stopped/history.csv 3 "${small[@]}" --num_epoch=1000000 --out=stopped
expect_at_least 2 "$(field 1 stopped/history.csv)"
expect_same "the fields of each line" "$(awk -F, '{ print NF }' stopped/history.csv | sort -u)" 6
[ -s stopped/history.png ] || fail "no picture after Ctrl-C"
echo "mnist: $checks checks passed"
