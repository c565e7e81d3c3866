// What the parts of a GPT-2 124M training step reach beside what the machine can do, for scripts/roofline.py:
//
//   roofline_bench THREADS [TOKENS]
//
// Prints lines of tab-separated columns: `peak`, floating-point operations a second (float32); `bandwidth`, bytes a
// second (two arrays read, one written); and for each part its name, how often a step has it, floating-point
// operations, the bytes that it has to read and write at least, and seconds.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/core/parallel.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "test/benchmark/roofline_bench.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace infini_train {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Products and sums in registers alone, enough of them at once to hide their latency. Returns their number.
int64_t MultiplyAdd(int64_t rounds, float *sink) {
    constexpr int kChains = 12;
    const hn::ScalableTag<float> d;
    hn::Vec<decltype(d)> sums[kChains];
    for (int i = 0; i < kChains; ++i) {
        sums[i] = hn::Set(d, static_cast<float>(i));
    }
    const auto factor = hn::Set(d, 0.5F);
    for (int64_t round = 0; round < rounds; ++round) {
        for (auto &sum : sums) {
            sum = hn::MulAdd(sum, factor, factor);
        }
    }
    for (int i = 1; i < kChains; ++i) {
        sums[0] = hn::Add(sums[0], sums[i]);
    }
    *sink += hn::GetLane(sums[0]);
    return 2 * rounds * kChains * static_cast<int64_t>(hn::Lanes(d));
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train {
namespace {

HWY_EXPORT(MultiplyAdd);

// The shortest of several runs, in seconds: what others on the machine take is no property of the code.
double Best(int runs, const std::function<void()> &body) {
    using Clock = std::chrono::steady_clock;
    double best = 1e9;
    for (int i = 0; i < runs; ++i) {
        const auto start = Clock::now();
        body();
        best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
    }
    return best;
}

void MeasureMachine(int threads) {
    std::vector<float> sinks(static_cast<size_t>(threads) * 16);
    std::vector<int64_t> counts(static_cast<size_t>(threads));
    const double seconds = Best(10, [&] {
        ParallelFor(0, threads, 1, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                counts[static_cast<size_t>(i)] =
                    HWY_DYNAMIC_DISPATCH(MultiplyAdd)(1 << 22, &sinks[static_cast<size_t>(i) * 16]);
            }
        });
    });
    std::cout << "peak\t" << static_cast<double>(counts[0]) * threads / seconds << '\n';

    constexpr int64_t kElements = 1 << 25;
    const auto a = Tensor::Ones({kElements}), b = Tensor::Ones({kElements}), c = Tensor::Ones({kElements});
    float *to = a->Data<float>();
    const float *left = b->Data<float>(), *right = c->Data<float>();
    const double triad = Best(7, [&] {
        ParallelFor(0, kElements, 1 << 16, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                to[i] = left[i] + 3.0F * right[i];
            }
        });
    });
    std::cout << "bandwidth\t" << 3.0 * kElements * sizeof(float) / triad << '\n';
}

void Print(const std::string &name, int64_t count, double operations, double floats, double seconds) {
    std::cout << name << '\t' << count << '\t' << operations << '\t' << floats * sizeof(float) << '\t' << seconds
              << std::endl;
}

// Times an operator forward and, from its recorded output, backward.
void MeasureBoth(const std::string &name, int64_t count, double operations, double floats, double backward_operations,
                 double backward_floats, const TensorList &inputs, const std::function<TensorPtr()> &apply) {
    TensorPtr output = apply();
    Print(name, count, operations, floats, Best(7, [&] { output = apply(); }));
    const auto gradient = Tensor::Randn(output->Dims());
    Print(name + " backward", count, backward_operations, backward_floats,
          Best(7, [&] { autograd::Grad({output}, inputs, {gradient}, /*retain_graph=*/true); }));
}

void MeasureLinear(const std::string &name, int64_t count, int64_t rows, int64_t in, int64_t out) {
    const auto x = Tensor::Randn({rows, in})->RequiresGrad();
    const auto weight = Tensor::Randn({out, in})->RequiresGrad();
    const double operations = 2.0 * static_cast<double>(rows * in * out);
    const auto floats = static_cast<double>(rows * in + out * in + rows * out);
    MeasureBoth(name, count, operations, floats, 2 * operations, 2 * floats, {x, weight},
                [&] { return nn::function::Linear(x, weight); });
}

// Operators that read and write each element a few times.
void MeasureElementwise(int64_t rows) {
    const auto narrow = static_cast<double>(rows * 768), wide = static_cast<double>(rows * 3072);
    const auto x = Tensor::Randn({rows, 768})->RequiresGrad(), y = Tensor::Randn({rows, 768})->RequiresGrad();
    const auto hidden = Tensor::Randn({rows, 3072})->RequiresGrad();
    const auto weight = Tensor::Ones({768})->RequiresGrad(), bias = Tensor::Zeros({768})->RequiresGrad();
    MeasureBoth("layer norm", 25, 8 * narrow, 2 * narrow, 14 * narrow, 3 * narrow, {x, weight, bias},
                [&] { return nn::function::LayerNorm(x, {768}, weight, bias); });
    MeasureBoth("gelu", 12, 14 * wide, 2 * wide, 22 * wide, 3 * wide, {hidden},
                [&] { return nn::function::Gelu(hidden, true); });
    Print("residual add", 24, narrow, 3 * narrow, Best(7, [&] { x->Add(y); }));
}

void MeasureAttention(int64_t batch, int64_t length) {
    const auto qkv = Tensor::Randn({batch, length, 3, 12, 64})->RequiresGrad();
    const auto part = [&](int64_t i) { return qkv->Select(2, i)->Transpose(1, 2); };
    const double product = 2.0 * static_cast<double>(batch * 768 * length * (length + 1) / 2);
    const auto floats = static_cast<double>(batch * length * 768);
    MeasureBoth("attention", 12, 2 * product, 4 * floats, 5 * product, 8 * floats, {qkv}, [&] {
        return nn::function::ScaledDotProductAttention(part(0), part(1), part(2), {.is_causal = true});
    });
}

void MeasureEnds(int64_t rows) {
    constexpr int64_t kVocabulary = 50257, kParameters = 124439808;
    const auto logits = Tensor::Randn({rows, kVocabulary})->RequiresGrad();
    const auto labels = Tensor::RandInt(0, kVocabulary, {rows});
    const auto all = static_cast<double>(rows * kVocabulary);
    MeasureBoth("cross-entropy", 1, 4 * all, all, 4 * all, 2 * all, {logits},
                [&] { return nn::function::CrossEntropy(logits, labels); });
    const auto parameter = Tensor::Randn({kParameters})->RequiresGrad();
    parameter->set_grad(Tensor::Randn({kParameters}));
    optimizers::AdamW optimizer({parameter}, 1e-4);
    optimizer.Step();
    Print("AdamW", 1, 14.0 * kParameters, 7.0 * kParameters, Best(5, [&] { optimizer.Step(); }));
}

void Run(int threads, int64_t tokens) {
    SetNumThreads(threads);
    MeasureMachine(threads);
    MeasureLinear("linear 768-2304", 12, tokens, 768, 2304);
    MeasureLinear("linear 768-768", 12, tokens, 768, 768);
    MeasureLinear("linear 768-3072", 12, tokens, 768, 3072);
    MeasureLinear("linear 3072-768", 12, tokens, 3072, 768);
    MeasureLinear("output layer", 1, tokens, 768, 50257);
    MeasureAttention(tokens / 64, 64);
    MeasureElementwise(tokens);
    MeasureEnds(tokens);
}

}  // namespace
}  // namespace infini_train

int main(int argc, char **argv) {
    if (argc < 2) {
        std::cerr << "usage: roofline_bench THREADS [TOKENS]\n";
        return 2;
    }
    try {
        infini_train::Run(std::atoi(argv[1]), argc > 2 ? std::atoll(argv[2]) : 256);
    } catch (const std::exception &error) {
        std::cerr << "roofline_bench: " << error.what() << '\n';
        return 1;
    }
    return 0;
}
#endif  // HWY_ONCE
