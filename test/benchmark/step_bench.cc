// Training steps and small operators, a line each: name, tab, microseconds (the median of several runs). torch_step.py
// does the same work in PyTorch under the same names; scripts/bench_vs_torch.sh runs both in turn.
//
//   step_bench [THREADS]

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/core/parallel.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/convolution.h"
#include "infini_train/include/nn/modules/flatten.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/nn/modules/pooling.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"

namespace infini_train {
namespace {

constexpr int64_t kBatch = 64;

template <typename Body>
void Measure(const std::string &name, int calls, Body &&body) {
    using Clock = std::chrono::steady_clock;
    constexpr int kRuns = 9;
    for (int i = 0; i < calls / 10 + 5; ++i) {
        body();
    }
    std::vector<double> times;
    for (int run = 0; run < kRuns; ++run) {
        const auto start = Clock::now();
        for (int i = 0; i < calls; ++i) {
            body();
        }
        times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() / calls);
    }
    std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
    std::cout << name << '\t' << times[kRuns / 2] << std::endl;
}

template <typename Activation>
std::shared_ptr<nn::Sequential> Mlp(const std::vector<int64_t> &sizes) {
    auto net = std::make_shared<nn::Sequential>();
    for (size_t i = 0; i + 1 < sizes.size(); ++i) {
        net->Append(std::make_shared<nn::Linear>(sizes[i], sizes[i + 1]));
        if (i + 2 < sizes.size()) {
            net->Append(std::make_shared<Activation>());
        }
    }
    return net;
}

std::shared_ptr<nn::Sequential> LeNet() {
    using namespace nn;
    return std::make_shared<Sequential>(
        std::make_shared<Conv2d>(1, 6, 5, 1, 2), std::make_shared<Relu>(), std::make_shared<MaxPool2d>(2),
        std::make_shared<Conv2d>(6, 16, 5), std::make_shared<Relu>(), std::make_shared<MaxPool2d>(2),
        std::make_shared<Flatten>(), std::make_shared<Linear>(400, 120), std::make_shared<Relu>(),
        std::make_shared<Linear>(120, 84), std::make_shared<Relu>(), std::make_shared<Linear>(84, 10));
}

void MeasureStep(const std::string &name, int calls, const std::shared_ptr<nn::Module> &net, const TensorPtr &x) {
    const auto y = Tensor::RandInt(0, 10, {kBatch});
    optimizers::SGD optimizer(net->Parameters(), 0.01);
    Measure(name, calls, [&] {
        optimizer.ZeroGrad();
        nn::function::CrossEntropy((*net)({x})[0], y)->Backward();
        optimizer.Step();
    });
}

void MeasureSteps() {
    const auto flat = Tensor::Rand({kBatch, 784});
    MeasureStep("step mlp 784-30-10", 500, Mlp<nn::Sigmoid>({784, 30, 10}), flat);
    MeasureStep("step mlp 784-512-512-10", 100, Mlp<nn::Relu>({784, 512, 512, 10}), flat);
    MeasureStep("step lenet", 50, LeNet(), Tensor::Rand({kBatch, 1, 28, 28}));
}

void MeasureOperators() {
    const auto a = Tensor::Rand({8, 8}), b = Tensor::Rand({8, 8});
    const auto recorded = Tensor::Rand({8, 8})->RequiresGrad();
    const auto weight = Tensor::Rand({8, 8})->RequiresGrad(), bias = Tensor::Rand({8})->RequiresGrad();
    Measure("add 8x8", 20000, [&] { a->Add(b); });
    Measure("add 8x8 recorded", 20000, [&] { recorded->Add(b); });
    Measure("matmul 8x8", 20000, [&] { a->Matmul(b); });
    Measure("linear 8x8 recorded", 10000, [&] { nn::function::Linear(b, weight, bias); });
    Measure("100 mul forward and backward", 100, [&] {
        auto z = recorded;
        for (int i = 0; i < 100; ++i) {
            z = z->Mul(1.5);
        }
        z->Sum()->Backward();
    });
}

void MeasureHooks() {
    const auto x = Tensor::Rand({1, 8})->RequiresGrad();
    const auto gradient = Tensor::Ones({1, 8});
    const auto run = [&](const std::string &name, const std::shared_ptr<nn::Module> &layer) {
        Measure(name, 2000, [&] { (*layer)({x})[0]->Backward(gradient); });
    };
    auto layer = std::make_shared<nn::Linear>(8, 8);
    run("Linear(8,8) forward and backward, no hook", layer);
    layer->RegisterForwardPostHook([](nn::Module *, const TensorList &, const TensorList &) {});
    run("Linear(8,8) forward and backward, forward hook", layer);
    layer = std::make_shared<nn::Linear>(8, 8);
    layer->RegisterBackwardPostHook([](nn::Module *, const TensorList &, const TensorList &) {});
    run("Linear(8,8) forward and backward, backward hook", layer);
    layer = std::make_shared<nn::Linear>(8, 8);
    for (const int hooks : {1, 8}) {
        const std::string name = hooks == 1 ? "a tensor hook" : std::to_string(hooks) + " tensor hooks";
        Measure("Linear(8,8) forward and backward, " + name, 2000, [&] {
            const auto y = (*layer)({x})[0];
            for (int i = 0; i < hooks; ++i) {
                y->RegisterHook([](const TensorPtr &) {});
            }
            y->Backward(gradient);
        });
    }
}

}  // namespace
}  // namespace infini_train

int main(int argc, char **argv) {
    infini_train::SetNumThreads(argc > 1 ? std::max(1, std::atoi(argv[1])) : 2);
    infini_train::ManualSeed(0);
    infini_train::MeasureSteps();
    infini_train::SetNumThreads(1);
    infini_train::MeasureOperators();
    infini_train::MeasureHooks();
}
