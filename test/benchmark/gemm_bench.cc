// Times our matrix product and oneDNN's, one after the other in each iteration, and prints how much longer oneDNN takes
// (`ratio`, of the medians: above 1 we are faster). At the end: the same over all products of a training step, and for
// the best times, which other programs on the machine disturb least.
//
//     OMP_NUM_THREADS=2 gemm_bench --benchmark_filter=mnist

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
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

struct Times {
    double median = 0, best = 0;
};

Times Summarize(const std::vector<double> &seconds, int repeats) {
    return {Median(seconds) / repeats, *std::min_element(seconds.begin(), seconds.end()) / repeats};
}

struct Total {
    double flops = 0;
    Times ours, onednn;
};
std::map<std::string, Total> totals;

void AddTimes(const Times &times, double count, Times *sum) {
    sum->median += count * times.median;
    sum->best += count * times.best;
}

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
    const auto count = static_cast<double>(shape.count);
    Total &total = totals[shape.group];
    total.flops += count * shape.Flops();
    const Times our_times = Summarize(ours, repeats);
    AddTimes(our_times, count, &total.ours);
    state.counters["us"] = our_times.median * 1e6;
    state.counters["GF/s"] = shape.Flops() / our_times.median * 1e-9;
    if (!onednn.empty()) {
        const Times their_times = Summarize(onednn, repeats);
        AddTimes(their_times, count, &total.onednn);
        state.counters["oneDNN_GF/s"] = shape.Flops() / their_times.median * 1e-9;
        state.counters["ratio"] = their_times.median / our_times.median;
    }
}

void PrintTotals() {
    std::printf("\n%-16s %10s %8s %8s | best: %8s %8s\n", "per step", "ms", "GF/s", "ratio", "GF/s", "ratio");
    for (const auto &[group, total] : totals) {
        std::printf("%-16s %10.3f %8.1f %8.2f | %14.1f %8.2f\n", group.c_str(), total.ours.median * 1e3,
                    total.flops / total.ours.median * 1e-9, total.onednn.median / total.ours.median,
                    total.flops / total.ours.best * 1e-9, total.onednn.best / total.ours.best);
    }
}

int Main(int argc, char **argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
        return 1;
    }
    std::printf("%d threads\n", GetNumThreads());
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
