// What the profiler costs: the time of the same work with it over that without, side by side in one run, the best of
// all rounds of each. `ns_per_event` is the difference for each operator and module that is seen, forward and backward.

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>

#include <benchmark/benchmark.h>

#include "infini_train/include/nn/functional.h"
#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/tensor.h"
#include "infini_train/include/utils/profiler.h"

namespace infini_train {
namespace {

std::shared_ptr<nn::Sequential> Mlp(int64_t in, int64_t hidden, int64_t out) {
    return std::make_shared<nn::Sequential>(std::make_shared<nn::Linear>(in, hidden), std::make_shared<nn::Relu>(),
                                            std::make_shared<nn::Linear>(hidden, hidden), std::make_shared<nn::Relu>(),
                                            std::make_shared<nn::Linear>(hidden, out));
}

template <typename Work>
double Seconds(Work &&work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <typename Work>
void Compare(benchmark::State &state, const utils::ProfilerOptions &options, Work &&work) {
    double plain = std::numeric_limits<double>::infinity(), profiled = plain;
    int64_t events = 0;
    work();
    for (auto _ : state) {
        plain = std::min(plain, Seconds(work));
        utils::Profiler profiler(options);
        profiled = std::min(profiled, Seconds(work));
        profiler.Stop();
        events = 0;
        for (const auto &row : profiler.Operators()) {
            events += row.stats.calls;
        }
        for (const auto &row : profiler.Modules()) {
            events += row.forward.calls;
        }
    }
    state.counters["ratio"] = profiled / plain;
    state.counters["ns_per_event"] = 1e9 * (profiled - plain) / static_cast<double>(events);
}

utils::ProfilerOptions Options(bool everything) {
    utils::ProfilerOptions options;
    options.trace = options.shapes = options.memory = everything;
    return options;
}

// Forward and backward of 784-512-512-10 on a batch of 64, as the MNIST trainer's --model=mlp512.
void TrainingStep(benchmark::State &state) {
    const auto net = Mlp(784, 512, 10);
    const auto images = Tensor::Rand({64, 784});
    const auto labels = Tensor::RandInt(0, 10, {64});
    Compare(state, Options(state.range(0) != 0), [&] {
        net->ZeroGrad();
        nn::function::CrossEntropy((*net)({images})[0], labels)->Backward();
    });
}
BENCHMARK(TrainingStep)->Arg(0)->Arg(1)->ArgName("everything")->Iterations(200);

// The worst case: operators that compute next to nothing.
void TinyOperators(benchmark::State &state) {
    const auto net = Mlp(4, 4, 4);
    const auto x = Tensor::Rand({1, 4});
    Compare(state, Options(state.range(0) != 0), [&] {
        for (int i = 0; i < 50; ++i) {
            net->ZeroGrad();
            (*net)({x})[0]->Sum()->Backward();
        }
    });
}
BENCHMARK(TinyOperators)->Arg(0)->Arg(1)->ArgName("everything")->Iterations(50);

}  // namespace
}  // namespace infini_train

BENCHMARK_MAIN();
