"""The work of attention_bench.cc in PyTorch: F.scaled_dot_product_attention. A line each, name, tab, milliseconds.

    torch_attention.py [THREADS]
"""

import statistics
import sys
import time

import torch
from torch.nn import functional as F

HEADS, FEATURES = 12, 64
WIDTH = HEADS * FEATURES


def measure(name, calls, body):
    for _ in range(calls // 5 + 3):
        body()
    times = []
    for _ in range(9):
        start = time.perf_counter()
        for _ in range(calls):
            body()
        times.append((time.perf_counter() - start) / calls * 1e3)
    print(f"{name}\t{statistics.median(times):.3f}", flush=True)


def measure_attention(name, dropout=0.0, dtype=torch.float32):
    for backward in (False, True):
        for batch, length in ((4, 64), (1, 1024)):
            x = torch.randn(batch, length, 3 * WIDTH, dtype=dtype, requires_grad=backward)
            grad = torch.randn(batch, length, WIDTH, dtype=dtype)

            def run():
                q, k, v = (t.view(batch, length, HEADS, FEATURES).transpose(1, 2) for t in x.split(WIDTH, 2))
                y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
                y = y.transpose(1, 2).reshape(batch, length, WIDTH)
                if backward:
                    torch.autograd.grad(y, x, grad)

            pass_name = "forward_backward" if backward else "forward"
            measure(f"{name}/{pass_name}/B:{batch}/T:{length}", 100 if length == 64 else 10, run)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
    measure_attention("attention")
    measure_attention("attention_dropout", dropout=0.1)
    measure_attention("attention_bfloat16", dtype=torch.bfloat16)
