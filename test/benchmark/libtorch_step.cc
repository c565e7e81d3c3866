// The work of step_bench.cc through libtorch's C++ interface, under the same names: a line each, name, tab,
// microseconds. bench_vs_torch compiles it against the headers and libraries inside the torch package. (libtorch's
// modules have no hooks; its tensors have.)

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <torch/torch.h>
#include <vector>

namespace {

constexpr int64_t kBatch = 64;

template <typename Body>
void Measure(const std::string &name, int calls, const Body &body) {
    for (int i = 0; i < calls / 10 + 5; ++i) {
        body();
    }
    std::vector<double> times;
    for (int round = 0; round < 9; ++round) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < calls; ++i) {
            body();
        }
        const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
        times.push_back(elapsed.count() / calls);
    }
    std::sort(times.begin(), times.end());
    std::printf("%s\t%.3f\n", name.c_str(), times[times.size() / 2]);
    std::fflush(stdout);
}

template <typename Net>
void MeasureStep(const std::string &name, int calls, Net net, const torch::Tensor &x) {
    const auto y = torch::randint(0, 10, {kBatch}, torch::kLong);
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    Measure(name, calls, [&] {
        optimizer.zero_grad();
        torch::nn::functional::cross_entropy(net->forward(x), y).backward();
        optimizer.step();
    });
}

void MeasureSteps() {
    using namespace torch::nn;
    const auto flat = torch::rand({kBatch, 784});
    MeasureStep("step mlp 784-30-10", 500, Sequential(Linear(784, 30), Sigmoid(), Linear(30, 10)), flat);
    MeasureStep("step mlp 784-512-512-10", 100,
                Sequential(Linear(784, 512), ReLU(), Linear(512, 512), ReLU(), Linear(512, 10)), flat);
    MeasureStep("step lenet", 50,
                Sequential(Conv2d(Conv2dOptions(1, 6, 5).padding(2)), ReLU(), MaxPool2d(2), Conv2d(6, 16, 5), ReLU(),
                           MaxPool2d(2), Flatten(), Linear(400, 120), ReLU(), Linear(120, 84), ReLU(), Linear(84, 10)),
                torch::rand({kBatch, 1, 28, 28}));
}

void MeasureOperators() {
    const auto a = torch::rand({8, 8}), b = torch::rand({8, 8});
    const auto recorded = torch::rand({8, 8}).requires_grad_(true);
    const auto weight = torch::rand({8, 8}).requires_grad_(true), bias = torch::rand({8}).requires_grad_(true);
    Measure("add 8x8", 20000, [&] { auto z = a + b; });
    Measure("add 8x8 recorded", 20000, [&] { auto z = recorded + b; });
    Measure("matmul 8x8", 20000, [&] { auto z = torch::mm(a, b); });
    Measure("linear 8x8 recorded", 10000, [&] { auto z = torch::linear(b, weight, bias); });
    Measure("100 mul forward and backward", 100, [&] {
        auto z = recorded;
        for (int i = 0; i < 100; ++i) {
            z = z * 1.5;
        }
        z.sum().backward();
    });
}

void MeasureHooks() {
    const auto x = torch::rand({1, 8}).requires_grad_(true);
    const auto gradient = torch::ones({1, 8});
    torch::nn::Linear layer(8, 8);
    Measure("Linear(8,8) forward and backward, no hook", 2000, [&] { layer(x).backward(gradient); });
    for (const int hooks : {1, 8}) {
        const std::string name = hooks == 1 ? "a tensor hook" : std::to_string(hooks) + " tensor hooks";
        Measure("Linear(8,8) forward and backward, " + name, 2000, [&] {
            auto y = layer(x);
            for (int i = 0; i < hooks; ++i) {
                y.register_hook([](const torch::Tensor &) {});
            }
            y.backward(gradient);
        });
    }
}

}  // namespace

int main(int argc, char **argv) {
    at::set_num_threads(argc > 1 ? std::max(1, std::atoi(argv[1])) : 2);
    torch::manual_seed(0);
    MeasureSteps();
    at::set_num_threads(1);
    MeasureOperators();
    MeasureHooks();
}
