// The library's own cost around the arithmetic: an operator forward, a node forward and backward, hooks. Tiny tensors,
// one thread. `bench_vs_torch` sets the same beside PyTorch.

#include <memory>

#include <benchmark/benchmark.h>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/core/parallel.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/tensor.h"

namespace infini_train {
namespace {

TensorPtr Small(bool requires_grad = false) {
    auto tensor = Tensor::Rand({8, 8});
    tensor->set_requires_grad(requires_grad);
    return tensor;
}

void EmptyTensor(benchmark::State &state) {
    for (auto _ : state) {
        benchmark::DoNotOptimize(Tensor::Empty({8, 8}));
    }
}
BENCHMARK(EmptyTensor);

void ViewForward(benchmark::State &state) {
    const auto a = Small();
    const std::vector<int64_t> dims = {64};
    const autograd::NoGradGuard no_grad;
    for (auto _ : state) {
        benchmark::DoNotOptimize(a->View(dims));
    }
}
BENCHMARK(ViewForward);

void AddForward(benchmark::State &state) {
    const auto a = Small(), b = Small();
    const autograd::NoGradGuard no_grad;
    for (auto _ : state) {
        benchmark::DoNotOptimize(a->Add(b));
    }
}
BENCHMARK(AddForward);

void AddForwardRecorded(benchmark::State &state) {
    const auto a = Small(true), b = Small();
    for (auto _ : state) {
        benchmark::DoNotOptimize(a->Add(b));
    }
}
BENCHMARK(AddForwardRecorded);

void MatmulForward(benchmark::State &state) {
    const auto a = Small(), b = Small();
    const autograd::NoGradGuard no_grad;
    for (auto _ : state) {
        benchmark::DoNotOptimize(a->Matmul(b));
    }
}
BENCHMARK(MatmulForward);

// The difference of 110 and 10 nodes, over 100, is the cost of a node.
void MulChainForwardBackward(benchmark::State &state) {
    const auto a = Small(true);
    for (auto _ : state) {
        auto z = a;
        for (int64_t i = 0; i < state.range(0); ++i) {
            z = z->Mul(1.5);
        }
        z->Sum()->Backward();
    }
}
BENCHMARK(MulChainForwardBackward)->Arg(10)->Arg(110);

class Identity : public nn::Module {
public:
    Identity() : Module("Identity") {}
    TensorList Forward(const TensorList &inputs) override { return inputs; }
};

void CallModule(benchmark::State &state) {
    const auto module = std::make_shared<Identity>();
    const TensorList inputs = {Small()};
    for (int64_t i = 0; i < state.range(0); ++i) {
        module->RegisterForwardPostHook([](nn::Module *, const TensorList &, const TensorList &) {});
    }
    for (auto _ : state) {
        benchmark::DoNotOptimize((*module)(inputs));
    }
}
BENCHMARK(CallModule)->ArgName("forward_hooks")->Arg(0)->Arg(1)->Arg(8);

class Twice : public nn::Module {
public:
    Twice() : Module("Twice") {}
    TensorList Forward(const TensorList &inputs) override { return {inputs[0]->Mul(2)}; }
};

// In the middle of a graph, where a module's gradients are new tensors.
void ModuleForwardBackward(benchmark::State &state) {
    const auto module = std::make_shared<Twice>();
    const auto x = Small(true);
    const auto gradient = Small();
    for (int64_t i = 0; i < state.range(0); ++i) {
        module->RegisterBackwardPostHook([](nn::Module *, const TensorList &, const TensorList &) {});
    }
    for (auto _ : state) {
        (*module)({x})[0]->Mul(3)->Backward(gradient);
        x->ZeroGrad();
    }
}
BENCHMARK(ModuleForwardBackward)->ArgName("backward_hooks")->Arg(0)->Arg(1)->Arg(8);

void TensorHookOnALeaf(benchmark::State &state) {
    const auto x = Small(true);
    const auto gradient = Small();
    for (int64_t i = 0; i < state.range(0); ++i) {
        x->RegisterHook([](const TensorPtr &) {});
    }
    for (auto _ : state) {
        x->Mul(2)->Backward(gradient);
        x->ZeroGrad();
    }
}
BENCHMARK(TensorHookOnALeaf)->ArgName("tensor_hooks")->Arg(0)->Arg(1)->Arg(8);

}  // namespace
}  // namespace infini_train

int main(int argc, char **argv) {
    infini_train::SetNumThreads(1);
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
}
