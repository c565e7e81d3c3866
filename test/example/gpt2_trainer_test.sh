#!/usr/bin/env bash
# Runs the gpt2 trainer as a user would, on a small text made here.
#
#   gpt2_trainer_test.sh GPT2 TOKENIZE WORK [sanitized]
#
# the programs, a folder of the test's own, and whether memory is used by a sanitizer, too.
set -euo pipefail
program=$1
tokenize=$2
work=$3
sanitized=${4:-}
source "$(dirname "${BASH_SOURCE[0]}")/program_checks.sh"

# expect_true CONDITION TEXT...: a condition of awk's, over the numbers in v.
expect_true() {
    local condition=$1
    shift
    awk -v text="$*" "BEGIN { split(text, v, \" \"); exit !($condition) }" || fail "expected $condition of: $*"
    checks=$((checks + 1))
}

# rows FILE: all that doesn't depend on the time.
rows() {
    cut -d, -f1-6 "$1"
}

# losses FILE: steps and training losses alone.
losses() {
    cut -d, -f1,3 "$1"
}

# last FIELD FILE: of the last line of a history.
last() {
    tail -n 1 "$2" | cut -d, -f"$1"
}

write_text() {
    local i state=7 words=(the sea and a ship "of stars" went "far away" home again)
    for ((i = 0; i < 700; ++i)); do
        state=$(((state * 1103515245 + 12345) & 0x7fffffff))
        printf '%s' "${words[(state >> 16) % 10]}"
        ((i % 9 == 8)) && printf '.\n' || printf ' '
    done
}

rm -rf "$work"
mkdir -p "$work"
cd "$work"
write_text >text.txt

# ---- The command line -----------------------------------------------------------------------------------------------

expect_run 0 --help
for text in "Usage: gpt2 [flags]" Data Model Training Checkpoints "Writing text" --total_batch_size --llmc_filepath "Examples:"; do
    expect_output "$text"
done
expect_run 0 --version
grep -qxE 'gpt2 [0-9]+\.[0-9]+\.[0-9]+' output || fail "expected the name and a version"
expect_run 2
expect_output "nothing to learn from: give --text=FILE"
expect_run 2 --text=text.txt --num_iterations=3
expect_output "did you mean --num_iteration?"
expect_run 2 --text=nowhere.txt
expect_output "flag --text: expected a file that can be read"
expect_run 2 --text=text.txt --input_bin=x.bin
expect_output "either --text or --input_bin"
expect_run 1 --input_bin=nowhere.bin
expect_output "nowhere.bin"
expect_run 2 --text=text.txt --model=gpt2-midium
expect_output "did you mean 'gpt2-medium'?"
expect_run 2 --text=text.txt --n_head=3
expect_output "flag --n_embd: expected a multiple of --n_head, 3, got 128"
expect_run 2 --text=text.txt --batch_size=4 --sequence_length=16 --total_batch_size=100
expect_output "expected a multiple of --batch_size times --sequence_length, 64, got 100"
expect_run 2 --text=text.txt --lr_schedule=cosin
expect_output "did you mean 'cosine'?"
expect_run 2 --text=text.txt --tokenizer=char --tokenizer_bin=x
expect_output "--tokenizer_bin is another name for --tokenizer"
expect_run 2 --text=text.txt --patience=2 --val_loss_every=0
expect_output "--patience goes by the validation loss"
expect_run 2 --generate
expect_output "expected the model as either --load or --checkpoint_dir"
expect_run 2 --text=text.txt --resume
expect_output "expected --checkpoint_dir with --resume"
expect_run 2 --text=text.txt --autocast=fp8
expect_output "flag --autocast: expected one of none, bf16, fp16, got 'fp8'"
expect_run 2 --text=text.txt --autocast=bf16 --dtype=bfloat16
expect_output "goes with --dtype=float32"
expect_run 2 --text=text.txt --cuda_graph
expect_output "flag --cuda_graph: needs a GPU"
expect_run 1 --text=text.txt --sequence_length=5000
expect_output "try a smaller --sequence_length or a longer text"
expect_run 1 --load=nowhere --generate
expect_output "nowhere"
[ ! -e history.csv ] || fail "a run that failed left a history"

# ---- Training -------------------------------------------------------------------------------------------------------

small=(--text=text.txt --n_layer=1 --n_head=2 --n_embd=16 --sequence_length=16 --batch_size=4 --text_length=20
    --learning_rate=0.01)
expect_run 0 "${small[@]}" --num_iteration=150 --val_loss_every=50 --out=one --tensorboard=board --save=model --threads=1
for text in "tokens" "parameters" "about" "step 0: validation loss" "perplexity" "tokens/s" "of peak" "step 150 writes:"; do
    expect_output "$text"
done
expect_same "the header" "$(head -n 1 one/history.csv)" \
    "step,tokens,train_loss,validation_loss,learning_rate,grad_norm,tokens_per_second"
expect_same "the number of steps and tokens" "$(last 1,2 one/history.csv)" "150,9600"
# The text has ten words, which a model that knows no words can't have learned: ln(20 characters) is 3.
expect_true "v[1] < 1.7 && v[1] > 0.3" "$(last 4 one/history.csv)"
expect_same "the validations" "$(cut -d, -f4 one/history.csv | tail -n +2 | grep -c .)" 3
expect_same "the picture's first bytes" "$(head -c 4 one/history.png | tail -c 3)" PNG
[ -s board/events.out.tfevents.* ] || fail "expected an event file"
# The rate rises for 15 steps to 0.01 and falls to a tenth.
expect_true "v[1] > 0.0099 && v[2] > 0.00099 && v[2] < 0.0011" "$(sed -n 17p one/history.csv | cut -d, -f5)" "$(last 5 one/history.csv)"
# What was saved says the same, and the same seed the same on any number of threads; another seed another.
loss=$(grep -oE 'step 150: validation loss [0-9.]+' output | grep -oE '[0-9.]+$')
expect_run 0 "${small[@]}" --num_iteration=0 --load=model --out=loaded
expect_output "step 0: validation loss $loss"
expect_run 0 "${small[@]}" --num_iteration=5 --nobias --save=nobias --out=nobias
loss=$(grep -oE 'step 5: validation loss [0-9.]+' output | grep -oE '[0-9.]+$')
expect_run 0 "${small[@]}" --num_iteration=0 --load=nobias --out=loaded
expect_output "step 0: validation loss $loss" # what transformers needs as biases are zeros
expect_run 0 "${small[@]}" --num_iteration=30 --val_loss_every=10 --sample_every=7 --dropout=0.1 --threads=2 --out=threads
expect_run 0 "${small[@]}" --num_iteration=30 --val_loss_every=0 --dropout=0.1 --threads=1 --num_workers=0 --out=plain
expect_same "the runs with validations and samples and without" "$(losses threads/history.csv)" "$(losses plain/history.csv)"
expect_run 0 "${small[@]}" --num_iteration=30 --val_loss_every=0 --seed=7 --dropout=0.1 --out=seed
[ "$(losses seed/history.csv)" != "$(losses plain/history.csv)" ] || fail "two seeds gave the same losses"

# Two batches of four are one of eight, and their tokens from a file are those of the text.
expect_run 0 "${small[@]}" --num_iteration=10 --batch_size=8 --out=eight
expect_run 0 "${small[@]}" --num_iteration=10 --total_batch_size=128 --out=gathered
expect_true "(v[1] - v[2])^2 < 1e-8" "$(last 3 eight/history.csv)" "$(last 3 gathered/history.csv)"
"$tokenize" --learn=char --input=text.txt --output=train.bin --val_output=val.bin --save_tokenizer=chars.json >output
expect_run 0 "${small[@]:1}" --input_bin=train.bin --input_val_bin=val.bin --tokenizer_bin=chars.json --stride=1 --batch_size=8 \
    --num_iteration=10 --out=bins
expect_same "the runs from text and from bins" "$(rows eight/history.csv)" "$(rows bins/history.csv)"
expect_run 1 "${small[@]:1}" --input_bin=train.bin --vocab_size=5 --num_iteration=10 --noshuffle --out=bins
expect_output "train.bin"

# The options that change the way: each trains, none leaves the loss where it was.
expect_run 0 "${small[@]}" --num_iteration=20 --checkpoint_activations --dropout=0.1 --threads=1 --out=again
expect_run 0 "${small[@]}" --num_iteration=20 --dropout=0.1 --threads=1 --out=kept
expect_same "the runs with and without recomputation" "$(rows again/history.csv)" "$(rows kept/history.csv)"
expect_run 0 "${small[@]}" --max_tokens=1000 --lr_schedule=one_cycle --out=cycle
expect_same "the steps of 1000 tokens" "$(last 1 cycle/history.csv)" 16
for schedule in linear constant step exponential; do
    expect_run 0 "${small[@]}" --num_iteration=20 --lr_schedule=$schedule --lr_step_size=5 --out=$schedule
done
# At the last step 17 have passed since the warm-up: of 18 for linear, in three falls by half, and in 17 / 5 of one.
expect_true "v[1] == 0.01 && (v[2] - 0.0015)^2 < 1e-12 && v[3] == 0.00125 && (v[4] - 0.01 * 0.5^3.4)^2 < 1e-12" \
    "$(last 5 constant/history.csv)" "$(last 5 linear/history.csv)" "$(last 5 step/history.csv)" \
    "$(last 5 exponential/history.csv)"
# A rate that is far too high: nothing gets better, so the rate falls, and patience ends.
expect_run 0 "${small[@]}" --num_iteration=200 --val_loss_every=2 --lr_schedule=plateau --learning_rate=1 --grad_clip=0 --out=plateau
expect_true "v[1] < 1" "$(last 5 plateau/history.csv)"
expect_run 0 "${small[@]}" --num_iteration=1000 --val_loss_every=2 --patience=2 --learning_rate=0.5 --out=patience --save=best
expect_output "ended early: 2 validations without a better loss"
[ -s best/model.safetensors ] || fail "expected the best model"
expect_run 1 "${small[@]}" --num_iteration=50 --learning_rate=1e30 --grad_clip=0 --warmup_iters=0 --out=broken
expect_output "try a smaller --learning_rate"
expect_run 0 "${small[@]}" --num_iteration=16 --out=profiled --summary --profile=trace.json
expect_output "FLOPs"
grep -q '"traceEvents"' trace.json || fail "expected a trace"

# The forecast of memory, for a small and for a medium run.
if [ -z "$sanitized" ]; then
    for shape in "--batch_size=12 --sequence_length=64" "--n_embd=256 --batch_size=16 --sequence_length=128"; do
        # shellcheck disable=SC2086 # flags
        expect_run 0 --text=text.txt $shape --stride=1 --num_iteration=3 --val_max_steps=1 --text_length=1 --out=memory
        read -r peak forecast <<<"$(sed -nE 's/^memory: +([0-9.]+) MiB at most, ([0-9.]+) MiB forecast$/\1 \2/p' output)"
        expect_true "v[2] > 0.8 * v[1] && v[2] < 1.2 * v[1]" "$peak" "$forecast"
    done
fi

# ---- Checkpoints ----------------------------------------------------------------------------------------------------

# 6 steps, a new process and 6 more are 12 steps, to the last bit, with any number of workers.
way=("${small[@]}" --dropout=0.1 --lr_decay_iters=12 --val_loss_every=3)
expect_run 0 "${way[@]}" --num_iteration=12 --num_workers=0 --checkpoint_dir=whole --out=whole
for workers in 0 2 8; do
    expect_run 0 "${way[@]}" --num_iteration=6 --num_workers=$workers --checkpoint_dir=part$workers --out=part$workers
    expect_run 0 --num_iteration=12 --resume --num_workers=$workers --checkpoint_dir=part$workers --out=part$workers
    expect_output "checkpoint of step 6"
    expect_same "the histories with $workers workers" "$(rows whole/history.csv)" "$(rows part$workers/history.csv)"
    for file in model optimizer training; do
        cmp "whole/step_00000012/$file.safetensors" "part$workers/step_00000012/$file.safetensors" ||
            fail "$file differs after going on with $workers workers"
        checks=$((checks + 1))
    done
done
# So it is across files: the data are over after 12 steps, in the second of two.
"$tokenize" --tokenizer=chars.json --input=text.txt --output=shard_0.bin --format=uint32 >output
head -c 8000 shard_0.bin >shard_1.bin
way=("${small[@]:1}" --input_bin='shard_*.bin' --token_format=uint32 --vocab_size=20 --batch_size=30)
expect_run 0 "${way[@]}" --num_iteration=24 --checkpoint_dir=shards --out=shards
expect_run 0 "${way[@]}" --num_iteration=8 --lr_decay_iters=24 --warmup_iters=2 --checkpoint_dir=shard_part --out=shard_part
expect_run 0 --num_iteration=24 --resume --num_workers=3 --checkpoint_dir=shard_part --out=shard_part
expect_same "the histories across files" "$(rows shards/history.csv)" "$(rows shard_part/history.csv)"
# So it is with 16 bits, whose optimizer keeps copies of 32, and with a loss that is scaled.
for kind in dtype=bfloat16 autocast=fp16; do
    way=("${small[@]}" "--$kind" --lr_decay_iters=12 --val_loss_every=3)
    expect_run 0 "${way[@]}" --num_iteration=12 --checkpoint_dir="whole_$kind" --out="whole_$kind"
    expect_run 0 "${way[@]}" --num_iteration=6 --checkpoint_dir="part_$kind" --out="part_$kind"
    expect_run 0 --num_iteration=12 --resume --checkpoint_dir="part_$kind" --out="part_$kind"
    expect_same "the histories with $kind" "$(rows "whole_$kind/history.csv")" "$(rows "part_$kind/history.csv")"
    for file in model optimizer training; do
        cmp "whole_$kind/step_00000012/$file.safetensors" "part_$kind/step_00000012/$file.safetensors" ||
            fail "$file differs with $kind"
        checks=$((checks + 1))
    done
done
expect_run 2 "${small[@]}" --num_iteration=20 --checkpoint_dir=whole
expect_output "--resume goes on with it"
expect_run 2 --resume --checkpoint_dir=whole --learning_rate=0.5
expect_output "flag --learning_rate: the checkpoint's run has '0.01', got '0.5'"
expect_run 0 "${way[@]}" --num_iteration=5 --checkpoint_every=1 --keep=2 --checkpoint_dir=kept_ones --out=kept_ones
expect_same "the checkpoints that are kept" "$(cd kept_ones && echo step_*)" "step_00000004 step_00000005"
cp -r whole damaged
printf x | dd of=damaged/step_00000012/model.safetensors bs=1 seek=3000 conv=notrunc status=none
expect_run 1 --resume --checkpoint_dir=damaged --num_iteration=13
expect_output "model.safetensors"

# ---- Writing --------------------------------------------------------------------------------------------------------

sample() {
    "$program" --generate --text_length=40 "$@" 2>errors || fail "gpt2 --generate $*: $(cat errors)"
}
greedy=$(sample --load=model --greedy --prompt="the sea")
[[ $greedy == "the sea"* ]] || fail "expected the prompt in front of '$greedy'"
grep -q "40 tokens in" errors || fail "expected how long it took"
expect_same "greedy text, twice" "$greedy" "$(sample --load=model --temperature=0 --prompt="the sea")"
expect_same "one of one token" "$greedy" "$(sample --load=model --top_k=1 --prompt="the sea")"
expect_same "the same seed" "$(sample --load=model --seed=3)" "$(sample --load=model --seed=3)"
[ "$(sample --load=model --seed=3)" != "$(sample --load=model --seed=4)" ] || fail "two seeds wrote the same"
expect_same "the number of samples" "$(sample --load=model --num_samples=3 --top_p=0.9 --repetition_penalty=1.1 | grep -c '^---$')" 2
expect_same "the beams" "$(sample --load=model --num_beams=3 --prompt="the sea" | grep -c 'the sea')" 3
expect_same "weights of a checkpoint" "$(sample --checkpoint_dir=whole --greedy)" "$(sample --load=part2/step_00000012 --greedy)"
expect_run 1 --generate --load=model --prompt="the sea~"
expect_output "'~'"

# ---- The King James text --------------------------------------------------------------------------------------------

mkdir bin
printf '#!/bin/sh\n[ "$*" = "-f gen1:1-rev22:21" ] && cat "%s"\n' "$PWD/text.txt" >bin/bible
chmod +x bin/bible
PATH="$PWD/bin:$PATH" expect_run 0 "${small[@]:1}" --text=kjv --num_iteration=2 --out=kjv
expect_output "King James"
printf '#!/bin/sh\nexit 1\n' >bin/bible
PATH="$PWD/bin:$PATH" expect_run 1 --text=kjv
expect_output "apt-get install bible-kjv"

# ---- Ctrl-C ---------------------------------------------------------------------------------------------------------

expect_clean_stop stopped/history.csv 4 "${small[@]}" --num_iteration=1000000 --val_loss_every=0 --out=stopped \
    --checkpoint_dir=stopped
expect_output "go on with --checkpoint_dir=stopped --resume"
step=$(last 1 stopped/history.csv)
[ -d "stopped/$(printf 'step_%08d' "$step")" ] || fail "expected a checkpoint of step $step"
[ -s stopped/history.png ] || fail "no picture after Ctrl-C"
expect_run 0 --resume --checkpoint_dir=stopped --out=stopped --num_iteration=$((step + 2))
expect_same "the steps after going on" "$(last 1 stopped/history.csv)" $((step + 2))
expect_same "the lines" "$(tail -n +2 stopped/history.csv | wc -l)" $((step + 2))
echo "gpt2: $checks checks passed"
