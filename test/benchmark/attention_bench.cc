// Causal attention of GPT-2's shapes, from the (B, T, 3 C) output of one linear layer to (B, T, C) and, with the
// backward pass, to the gradient of the former. torch_attention.py times the same in PyTorch.
//
//     OMP_NUM_THREADS=2 attention_bench --benchmark_filter=T64

#include <cmath>
#include <cstdint>
#include <string>

#include <benchmark/benchmark.h>

#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/tensor.h"

namespace infini_train {
namespace {

constexpr int64_t kHeads = 12;
constexpr int64_t kFeatures = 64;
constexpr int64_t kWidth = kHeads * kFeatures;

TensorPtr Fused(const TensorList &qkv, double dropout) {
    return nn::function::ScaledDotProductAttention(qkv[0], qkv[1], qkv[2], {.dropout_p = dropout, .is_causal = true});
}

// As it is written without the operator: the (T, T) weights are made and kept.
TensorPtr Composed(const TensorList &qkv, double dropout) {
    const int64_t length = qkv[0]->Dim(2);
    const auto scores = qkv[0]->Matmul(qkv[1]->Transpose(2, 3))->Mul(1 / std::sqrt(static_cast<double>(kFeatures)));
    const auto hidden = Tensor::Ones({length, length}, DataType::kBOOL)->Triu(1);
    const auto weights = scores->MaskedFill(hidden, -INFINITY)->Softmax(-1);
    return nn::function::Dropout(weights, dropout, dropout > 0)->Matmul(qkv[2]);
}

template <class Attention>
void Run(benchmark::State &state, const Attention &attention, double dropout, DataType dtype, bool backward) {
    const int64_t batch = state.range(0), length = state.range(1);
    const auto x = Tensor::Randn({batch, length, 3 * kWidth}, dtype);
    const auto grad = Tensor::Randn({batch, length, kWidth}, dtype);
    x->set_requires_grad(backward);
    for (auto _ : state) {
        TensorList qkv;
        for (const auto &part : x->Split(kWidth, 2)) {
            qkv.push_back(part->View({batch, length, kHeads, kFeatures})->Transpose(1, 2));
        }
        const auto y = attention(qkv, dropout)->Transpose(1, 2)->Reshape({batch, length, kWidth});
        if (backward) {
            benchmark::DoNotOptimize(autograd::Grad({y}, {x}, {grad}));
        }
    }
    // Two products of (T, T) weights forward, five backward, of which causality leaves half.
    const double product = 2.0 * static_cast<double>(batch * kWidth * length * (length + 1) / 2);
    state.counters["GF/s"] = benchmark::Counter(
        product * (backward ? 7 : 2), benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::OneK::kIs1000);
}

template <class Attention>
void Register(const std::string &name, const Attention &attention, double dropout = 0,
              DataType dtype = DataType::kFLOAT32) {
    for (const bool backward : {false, true}) {
        const std::string full = name + (backward ? "/forward_backward" : "/forward");
        benchmark::RegisterBenchmark(full.c_str(),
                                     [=](benchmark::State &state) { Run(state, attention, dropout, dtype, backward); })
            ->ArgNames({"B", "T"})
            ->Args({4, 64})
            ->Args({1, 1024})
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
    }
}

}  // namespace
}  // namespace infini_train

int main(int argc, char **argv) {
    using namespace infini_train;  // NOLINT(google-build-using-namespace)
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
        return 1;
    }
    Register("attention", Fused);
    Register("attention_dropout", Fused, 0.1);
    Register("attention_bfloat16", Fused, 0, DataType::kBFLOAT16);
    Register("composed", Composed);
    Register("composed_dropout", Composed, 0.1);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
