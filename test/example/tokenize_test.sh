#!/usr/bin/env bash
# Runs the tokenize tool as a user would.
#
#   tokenize_test.sh TOKENIZE WORK    the program, and a folder of the test's own
set -euo pipefail
program=$1
work=$2
source "$(dirname "${BASH_SOURCE[0]}")/program_checks.sh"

# expect_numbers FILE TYPE SKIP NUMBER...: what od reads behind SKIP bytes.
expect_numbers() {
    local file=$1 type=$2 skip=$3 found
    shift 3
    found=$(od -An -v -t "$type" -j "$skip" "$file" | tr -s ' \n' ' ')
    [ "$found" = " $* " ] || [ "$found" = " $*" ] || fail "$file: expected '$*', found '$found'"
    checks=$((checks + 1))
}

rm -rf "$work"
mkdir -p "$work"
cd "$work"
printf 'abcabcabc\303\251' >text.txt # Ten characters in eleven bytes.

expect_run 0 --learn=char --input=text.txt --output=train.bin --val_output=val.bin --val_fraction=0.2 --save_tokenizer=c.json
expect_output "char, 4 tokens"
expect_output "8 tokens"
head -c 12 train.bin >head.bin
expect_numbers head.bin d4 0 20240520 1 8
[ "$(head -c 1024 train.bin | tail -c 1012 | tr -d '\0' | wc -c)" -eq 0 ] || fail "expected zeros in the header"
expect_numbers train.bin u2 1024 0 1 2 0 1 2 0 1
expect_numbers val.bin u2 1024 2 3
[ ! -e train.bin.tmp ] || fail "expected no temporary file"

expect_run 0 --tokenizer=c.json --input=text.txt --output=plain.bin --format=uint16
expect_numbers plain.bin u2 0 0 1 2 0 1 2 0 1 2 3
expect_run 0 --tokenizer=c.json --input=text.txt --output=wide.bin --format=uint32
expect_numbers wide.bin u4 0 0 1 2 0 1 2 0 1 2 3

# ab is merged first: a (64) and b (65) are smaller than b and c. Then abc, then abcabc; é stays two bytes.
printf '%s' '<|endoftext|>' >>text.txt
expect_run 0 --learn=bpe --vocab_size=260 --input=text.txt --output=bpe.bin --format=uint16 --special --save_tokenizer=b.json
expect_output "bpe, 260 tokens"
expect_numbers bpe.bin u2 0 258 257 127 102 259
expect_run 0 --tokenizer=b.json --input=text.txt --output=again.bin --format=uint16 --special
cmp bpe.bin again.bin || fail "expected the saved tokenizer to give the same tokens"

# What can't be followed, and what can't be read.
expect_run 2 --input=text.txt --output=x.bin
expect_output "either --tokenizer or --learn"
expect_run 2 --learn=char --input=text.txt
expect_output "nothing to do"
expect_run 2 --learn=word --input=text.txt --output=x.bin
expect_output "learn"
expect_run 2 --learn=char --input=missing.txt --output=x.bin
expect_run 1 --learn=bpe --vocab_size=100 --input=text.txt --output=x.bin
expect_output "expected a vocab_size"
head -c 100 b.json >cut.json
expect_run 1 --tokenizer=cut.json --input=text.txt --output=x.bin
expect_output "cut.json: expected JSON"
printf 'xyz' >other.txt
expect_run 1 --tokenizer=c.json --input=other.txt --output=x.bin
expect_output "got 'x' at byte 0"
[ ! -e x.bin ] || fail "expected no file after an error"
expect_run 0 --help
expect_output "--val_fraction"

echo "$checks checks passed"
