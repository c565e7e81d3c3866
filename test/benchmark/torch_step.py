"""The work of step_bench.cc in PyTorch, under the same names: a line each, name, tab, microseconds.

    torch_step.py [THREADS]
"""

import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 64


def measure(name, calls, body):
    for _ in range(calls // 10 + 5):
        body()
    times = []
    for _ in range(9):
        start = time.perf_counter()
        for _ in range(calls):
            body()
        times.append((time.perf_counter() - start) / calls * 1e6)
    print(f"{name}\t{statistics.median(times):.3f}", flush=True)


def mlp(sizes, activation):
    layers = []
    for i in range(len(sizes) - 1):
        layers.append(nn.Linear(sizes[i], sizes[i + 1]))
        if i + 2 < len(sizes):
            layers.append(activation())
    return nn.Sequential(*layers)


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def measure_step(name, calls, net, x):
    y = torch.randint(0, 10, (BATCH,))
    # The fastest of the three implementations that PyTorch has for so few parameters.
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

    measure(name, calls, step)


def measure_steps():
    flat = torch.rand(BATCH, 784)
    measure_step("step mlp 784-30-10", 500, mlp([784, 30, 10], nn.Sigmoid), flat)
    measure_step("step mlp 784-512-512-10", 100, mlp([784, 512, 512, 10], nn.ReLU), flat)
    measure_step("step lenet", 50, lenet(), torch.rand(BATCH, 1, 28, 28))


def measure_operators():
    a, b = torch.rand(8, 8), torch.rand(8, 8)
    recorded = torch.rand(8, 8, requires_grad=True)
    weight, bias = torch.rand(8, 8, requires_grad=True), torch.rand(8, requires_grad=True)
    measure("add 8x8", 20000, lambda: a + b)
    measure("add 8x8 recorded", 20000, lambda: recorded + b)
    measure("matmul 8x8", 20000, lambda: a @ b)
    measure("linear 8x8 recorded", 10000, lambda: F.linear(b, weight, bias))

    def chain():
        z = recorded
        for _ in range(100):
            z = z * 1.5
        z.sum().backward()

    measure("100 mul forward and backward", 100, chain)


def measure_hooks():
    x = torch.rand(1, 8, requires_grad=True)
    gradient = torch.ones(1, 8)

    def run(name, layer):
        measure(name, 2000, lambda: layer(x).backward(gradient))

    layer = nn.Linear(8, 8)
    run("Linear(8,8) forward and backward, no hook", layer)
    layer.register_forward_hook(lambda module, inputs, output: None)
    run("Linear(8,8) forward and backward, forward hook", layer)
    layer = nn.Linear(8, 8)
    layer.register_full_backward_hook(lambda module, grad_input, grad_output: None)
    run("Linear(8,8) forward and backward, backward hook", layer)
    layer = nn.Linear(8, 8)

    def hooked(hooks):
        y = layer(x)
        for _ in range(hooks):
            y.register_hook(lambda grad: None)
        y.backward(gradient)

    measure("Linear(8,8) forward and backward, a tensor hook", 2000, lambda: hooked(1))
    measure("Linear(8,8) forward and backward, 8 tensor hooks", 2000, lambda: hooked(8))


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
    measure_steps()
    torch.set_num_threads(1)
    measure_operators()
    measure_hooks()
