// Times our matrix product and oneDNN's, one after the other in each iteration, and prints how much longer oneDNN takes
// (`ratio`: above 1 we are faster). At the end: the same over all products of a training step.
//
//     gemm_bench --threads=2 --benchmark_filter=mnist

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>
#ifdef INFINI_TRAIN_HAVE_ONEDNN
#include <dnnl.h>
#endif

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/gemm.h"

namespace infini_train {
namespace {

struct Shape {
    std::string group;
    bool trans_a, trans_b;
    int64_t m, n, k;
    int64_t count = 1;  // calls in a step
    int64_t batch = 1;

    std::string Name() const {
        return group + "/" + (trans_a ? "T" : "N") + (trans_b ? "T" : "N") + "/" + std::to_string(m) + "x" +
               std::to_string(n) + "x" + std::to_string(k) + (batch > 1 ? "/batch:" + std::to_string(batch) : "");
    }
    double Flops() const { return 2.0 * static_cast<double>(m * n * k * batch); }
};

// The three products of a linear layer: y = x W^T, dx = dy W, dW = dy^T x. `dx` is left out for a network's first
// layer.
void AddLinear(std::vector<Shape> *shapes, const std::string &group, int64_t rows, int64_t in, int64_t out,
               int64_t count = 1, bool dx = true) {
    shapes->push_back({group, false, true, rows, out, in, count});
    if (dx) {
        shapes->push_back({group, false, false, rows, in, out, count});
    }
    shapes->push_back({group, true, false, out, in, rows, count});
}

// Attention scores and values of a head, and their gradients: (T, D) (D, T), (T, T) (T, D), (T, T)^T (T, D).
void AddAttention(std::vector<Shape> *shapes, int64_t batch, int64_t length) {
    const std::string group = "attention_" + std::to_string(length);
    shapes->push_back({group, false, true, length, length, 64, 12, batch});
    shapes->push_back({group, false, false, length, 64, length, 12, batch});
    shapes->push_back({group, true, false, length, 64, length, 12, batch});
}

std::vector<Shape> Shapes() {
    std::vector<Shape> shapes;
    for (const int64_t rows : {256, 1024}) {
        const std::string group = "gpt2_" + std::to_string(rows);
        for (const auto &[in, out] : {std::pair{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}}) {
            AddLinear(&shapes, group, rows, in, out, 12);
        }
        AddLinear(&shapes, group, rows, 768, 50257);
    }
    AddAttention(&shapes, 48, 64);
    AddAttention(&shapes, 12, 1024);
    AddLinear(&shapes, "mnist_512", 64, 784, 512, 1, false);
    AddLinear(&shapes, "mnist_512", 64, 512, 512);
    AddLinear(&shapes, "mnist_512", 64, 512, 10);
    AddLinear(&shapes, "mnist_30", 64, 784, 30, 1, false);
    AddLinear(&shapes, "mnist_30", 64, 30, 10);
    // LeNet's convolutions as products of the filters and the columns of one image, then its linear layers.
    shapes.push_back({"lenet", false, false, 6, 576, 25, 64});
    shapes.push_back({"lenet", false, false, 16, 64, 150, 64});
    shapes.push_back({"lenet", false, true, 6, 25, 576, 64});
    shapes.push_back({"lenet", false, true, 16, 150, 64, 64});
    shapes.push_back({"lenet", true, false, 150, 64, 16, 64});
    AddLinear(&shapes, "lenet", 64, 256, 120);
    AddLinear(&shapes, "lenet", 64, 120, 84);
    AddLinear(&shapes, "lenet", 64, 84, 10);
    // One token at a time through a GPT-2.
    shapes.push_back({"generate", false, true, 1, 2304, 768, 12});
    shapes.push_back({"generate", false, true, 1, 768, 3072, 12});
    shapes.push_back({"generate", false, true, 1, 50257, 768, 1});
    return shapes;
}

struct Operands {
    explicit Operands(const Shape &s) : a(s.m * s.k * s.batch), b(s.n * s.k * s.batch), c(s.m * s.n * s.batch) {
        uint32_t state = 1;
        for (auto *values : {&a, &b}) {
            for (float &value : *values) {
                state = state * 1664525U + 1013904223U;
                value = static_cast<float>(state >> 8) * 0x1p-23F - 1.0F;
            }
        }
    }
    std::vector<float> a, b, c;
};

void RunOurs(const Shape &s, Operands *x) {
    cpu::BatchedGemmArgs<float> args;
    args.gemm = {.trans_a = s.trans_a,
                 .trans_b = s.trans_b,
                 .m = s.m,
                 .n = s.n,
                 .k = s.k,
                 .a = x->a.data(),
                 .lda = s.trans_a ? s.m : s.k,
                 .b = x->b.data(),
                 .ldb = s.trans_b ? s.k : s.n,
                 .c = x->c.data(),
                 .ldc = s.n};
    if (s.batch == 1) {
        cpu::Gemm(args.gemm);
        return;
    }
    args.batch = s.batch;
    args.stride_a = s.m * s.k;
    args.stride_b = s.n * s.k;
    args.stride_c = s.m * s.n;
    cpu::GemmBatched(args);
}

#ifdef INFINI_TRAIN_HAVE_ONEDNN
void RunOneDnn(const Shape &s, Operands *x) {
    ParallelFor(0, s.batch, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            dnnl_sgemm(s.trans_a ? 'T' : 'N', s.trans_b ? 'T' : 'N', s.m, s.n, s.k, 1.0F, x->a.data() + i * s.m * s.k,
                       s.trans_a ? s.m : s.k, x->b.data() + i * s.n * s.k, s.trans_b ? s.k : s.n, 0.0F,
                       x->c.data() + i * s.m * s.n, s.n);
        }
    });
}
#endif

template <typename Body>
double Seconds(Body &&body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

struct Total {
    double flops = 0, ours = 0, onednn = 0;
};
std::map<std::string, Total> totals;

void BenchmarkShape(benchmark::State &state, const Shape &shape) {
    Operands operands(shape);
    // Short products are timed many at a time.
    const int repeats = std::max(1, static_cast<int>(1e7 / shape.Flops()));
    std::vector<double> ours, onednn;
    RunOurs(shape, &operands);
    for (auto _ : state) {
        ours.push_back(Seconds([&] {
            for (int i = 0; i < repeats; ++i) {
                RunOurs(shape, &operands);
            }
        }));
        state.SetIterationTime(ours.back());
#ifdef INFINI_TRAIN_HAVE_ONEDNN
        onednn.push_back(Seconds([&] {
            for (int i = 0; i < repeats; ++i) {
                RunOneDnn(shape, &operands);
            }
        }));
#endif
    }
    const double our_time = Median(ours) / repeats;
    state.counters["us"] = our_time * 1e6;
    state.counters["GF/s"] = shape.Flops() / our_time * 1e-9;
    Total total{shape.Flops(), our_time, 0};
    if (!onednn.empty()) {
        total.onednn = Median(onednn) / repeats;
        state.counters["oneDNN_GF/s"] = shape.Flops() / total.onednn * 1e-9;
        state.counters["ratio"] = total.onednn / our_time;
    }
    const auto count = static_cast<double>(shape.count);
    Total &sum = totals[shape.group];
    sum.flops += count * total.flops;
    sum.ours += count * total.ours;
    sum.onednn += count * total.onednn;
}

void PrintTotals() {
    std::printf("\n%-16s %12s %10s %14s %8s\n", "per step", "ms", "GF/s", "oneDNN GF/s", "ratio");
    for (const auto &[group, total] : totals) {
        std::printf("%-16s %12.3f %10.1f", group.c_str(), total.ours * 1e3, total.flops / total.ours * 1e-9);
        if (total.onednn > 0) {
            std::printf(" %14.1f %8.2f", total.flops / total.onednn * 1e-9, total.onednn / total.ours);
        }
        std::printf("\n");
    }
}

int Main(int argc, char **argv) {
    benchmark::Initialize(&argc, argv);
    int threads = 2;
    for (int i = 1; i < argc; ++i) {
        const std::string_view argument = argv[i];
        constexpr std::string_view kThreads = "--threads=";
        if (argument.substr(0, kThreads.size()) != kThreads || (threads = std::atoi(argv[i] + kThreads.size())) < 1) {
            std::fprintf(stderr, "gemm_bench: expected --threads=N or Google Benchmark's flags, got %s\n", argv[i]);
            return 1;
        }
    }
    SetNumThreads(threads);
    for (const Shape &shape : Shapes()) {
        benchmark::RegisterBenchmark(shape.Name().c_str(),
                                     [shape](benchmark::State &state) { BenchmarkShape(state, shape); })
            ->UseManualTime()
            ->Iterations(std::clamp<int64_t>(static_cast<int64_t>(2e10 / shape.Flops()), 5, 51))
            ->Unit(benchmark::kMicrosecond);
    }
    benchmark::RunSpecifiedBenchmarks();
    PrintTotals();
    return 0;
}

}  // namespace
}  // namespace infini_train

int main(int argc, char **argv) {
    return infini_train::Main(argc, argv);
}
