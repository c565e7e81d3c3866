"""tiktoken's part of scripts/bench_vs_tiktoken.sh: tiktoken_encode.py FOLDER TEXT [SECONDS]

Encodes the text with GPT-2's vocabulary, from encoder.json and vocab.bpe in FOLDER, in one thread, and prints the number of
tokens and the best MB/s, as tokenizer_bench does. The text is decoded beforehand: that time isn't counted.
"""
import json
import sys
import time

import tiktoken


def ranks(folder):
    """Bytes to id, which for GPT-2 is the order of the merges, too."""
    printable = [b for b in range(256) if chr(b).isprintable() and chr(b) != " "]
    of_character = {chr(b): b for b in printable}
    others = [b for b in range(256) if b not in printable]
    of_character.update({chr(256 + i): b for i, b in enumerate(others)})
    with open(f"{folder}/encoder.json", encoding="utf-8") as file:
        encoder = json.load(file)
    encoder.pop("<|endoftext|>")
    return {bytes(of_character[c] for c in token): rank for token, rank in encoder.items()}


def main():
    folder, path = sys.argv[1:3]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 2
    encoding = tiktoken.Encoding(
        "gpt2", pat_str=r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
        mergeable_ranks=ranks(folder), special_tokens={"<|endoftext|>": 50256})
    with open(path, "rb") as file:
        raw = file.read()
    text = raw.decode(errors="replace")
    best, start = float("inf"), time.perf_counter()
    while True:
        begin = time.perf_counter()
        ids = encoding.encode_ordinary(text)
        now = time.perf_counter()
        best = min(best, now - begin)
        if now - start >= seconds:
            break
    print(f"{len(ids)}\t{len(raw) / best / 1e6:.3f}")


main()
