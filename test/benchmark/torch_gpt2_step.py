"""Training steps of a GPT-2 in PyTorch, written as it is fastest there: one product for queries, keys and values,
scaled_dot_product_attention, fused AdamW.

    torch_gpt2_step.py FOLDER THREADS make BATCH LENGTH STEPS [LAYERS]   writes weights and tokens for both sides
    torch_gpt2_step.py FOLDER THREADS run [DEVICE [DTYPE]]               runs them; prints as gpt2_step_bench does

DTYPE is float32, tf32 (float32 whose products may round to TF32) or bfloat16 (autocast around float32 parameters).
"""

import json
import os
import resource
import statistics
import struct
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, CONTEXT, WIDTH, HEADS = 50257, 1024, 768, 12
WARM_UP = 2


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2) for part in self.c_attn(x).split(WIDTH, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(batch, length, WIDTH))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH)
        self.c_proj = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(WIDTH), Attention()
        self.ln_2, self.mlp = nn.LayerNorm(WIDTH), Mlp()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(layers))
        self.ln_f = nn.LayerNorm(WIDTH)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02 / (2 * layers) ** 0.5 if "c_proj" in name else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        logits = self.ln_f(x) @ self.wte.weight.t()
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


TYPES = {torch.float32: "F32", torch.int64: "I64"}


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.contiguous().numpy().tobytes())


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        names = {text: dtype for dtype, text in TYPES.items()}
        tensors = {}
        for name, entry in header.items():
            data = bytearray(file.read(entry["data_offsets"][1] - entry["data_offsets"][0]))
            tensors[name] = torch.frombuffer(data, dtype=names[entry["dtype"]]).view(entry["shape"])
        return tensors


def make(folder, batch, length, steps, layers=12):
    torch.manual_seed(0)
    weights = dict(Gpt2(layers).state_dict())
    write_safetensors(os.path.join(folder, "weights.safetensors"), weights)
    tokens = torch.randint(0, VOCABULARY, (steps, batch, length + 1))
    write_safetensors(os.path.join(folder, "tokens.safetensors"), {"tokens": tokens})


def run(folder, device="cpu", dtype="float32"):
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    weights = read_safetensors(os.path.join(folder, "weights.safetensors"))
    tokens = read_safetensors(os.path.join(folder, "tokens.safetensors"))["tokens"]
    model = Gpt2(sum(name.endswith("ln_1.weight") for name in weights))
    model.load_state_dict(weights)
    model, tokens = model.to(device), tokens.to(device)
    del weights
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
    times = []
    for step, batch in enumerate(tokens):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=dtype == "bfloat16"):
            loss = model(batch[:, :-1], batch[:, 1:])
        loss.backward()
        optimizer.step()
        print(f"loss\t{loss.item():.9g}")
        if step >= WARM_UP:
            times.append((time.perf_counter() - start) * 1e3)
    print(f"ms\t{statistics.median(times):.9g}")
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if device != "cpu":
        peak_kib = torch.cuda.max_memory_allocated() / 1024
    print(f"peak_mib\t{peak_kib / 1024:.9g}")


def main():
    folder, threads, command, *sizes = sys.argv[1:]
    torch.set_num_threads(int(threads))
    if command == "make":
        make(folder, *map(int, sizes))
    else:
        run(folder, *sizes)


main()
