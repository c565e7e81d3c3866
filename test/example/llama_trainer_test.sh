#!/usr/bin/env bash
# Runs the llama trainer as a user would; what gpt2's test shows of the common code isn't shown again.
#
#   llama_trainer_test.sh LLAMA WORK [STORIES]    the program, a folder of the test's own, and one with stories260K.bin
set -euo pipefail
program=$1
work=$2
stories=${3:-}
source "$(dirname "${BASH_SOURCE[0]}")/program_checks.sh"

rm -rf "$work"
mkdir -p "$work"
cd "$work"
for i in $(seq 400); do
    printf 'line %d of the text\n' "$i"
done >text.txt

expect_run 0 --help
expect_output "Usage: llama [flags]"
expect_run 2 --text=text.txt --model=stories15
expect_output "did you mean 'stories15m'?"
expect_run 2 --text=text.txt --n_kv_head=3
expect_output "flag --n_kv_head: expected a divisor of --n_head, 4, got 3"

small=(--text=text.txt --n_layer=1 --n_head=2 --n_kv_head=1 --n_embd=16 --sequence_length=16 --batch_size=4
    --text_length=20 --learning_rate=0.01)
expect_run 0 "${small[@]}" --num_iteration=60 --dropout=0.1 --save=model --checkpoint_dir=run
expect_output "1 block of 2 heads (1 of keys and values)"
grep -q '"LlamaForCausalLM"' model/config.json || fail "expected a LLaMA of Hugging Face's"
loss=$(grep -oE 'step 60: validation loss [0-9.]+' output | grep -oE '[0-9.]+$')
awk -v loss="$loss" 'BEGIN { exit !(loss < 2.5) }' || fail "expected to have learned something, got a loss of $loss"
expect_run 0 "${small[@]}" --num_iteration=0 --load=model
expect_output "step 0: validation loss $loss"
expect_run 0 --resume --checkpoint_dir=run --num_iteration=62
expect_output "checkpoint of step 60"

if [ -z "$stories" ] || [ ! -e "$stories/stories260K.bin" ]; then
    echo "llama: $checks checks passed; stories260K.bin isn't there"
    exit 0
fi
text=$("$program" --generate --load="$stories/stories260K.bin" --tokenizer="$stories/tok512.bin" \
    --prompt="Once upon a time" --greedy --text_length=40 2>errors) || fail "$(cat errors)"
[[ $text == "Once upon a time, there was a little girl named Lily. She loved to play outside"* ]] ||
    fail "expected the story that llama2.c tells, got '$text'"
checks=$((checks + 1))
expect_run 1 --generate --load="$stories/tok512.bin" --tokenizer="$stories/tok512.bin"
expect_output "tok512.bin"
echo "llama: $checks checks passed"
