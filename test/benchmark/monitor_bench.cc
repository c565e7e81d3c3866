// What monitoring costs, as ratios of times measured in turn: a line each, name, tab, ratio (the median of several
// runs).
//
//   monitor_bench [THREADS]

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "infini_train/include/core/parallel.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"
#include "infini_train/include/utils/activation_monitor.h"
#include "infini_train/include/utils/gradient_flow.h"
#include "infini_train/include/utils/tensor_statistics.h"

namespace infini_train {
namespace {

double CpuSeconds() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double Time(int calls, const std::function<void()> &body) {
    const double start = CpuSeconds();
    for (int i = 0; i < calls; ++i) {
        body();
    }
    return CpuSeconds() - start;
}

void Compare(const std::string &name, int calls, const std::function<void()> &body, const std::function<void()> &base) {
    constexpr int kRuns = 15;
    std::vector<double> ratios;
    body();
    base();
    for (int run = 0; run < kRuns; ++run) {
        const double first = Time(calls, body);
        ratios.push_back(first / Time(calls, base));
    }
    std::nth_element(ratios.begin(), ratios.begin() + kRuns / 2, ratios.end());
    std::cout << name << '\t' << ratios[kRuns / 2] << std::endl;
}

// A training step of 784-512-512-10 on 64 samples with Adam.
class Training {
public:
    explicit Training(const utils::MonitorOptions *options) {
        if (options != nullptr) {
            log_ = std::make_shared<utils::MonitorLog>(*options);
            activations_ = std::make_unique<utils::ActivationMonitor>(log_, *net_);
            gradients_ = std::make_unique<utils::GradientFlow>(log_, *net_);
            gradients_->WatchUpdates(optimizer_);
        }
    }

    void Step() {
        optimizer_.ZeroGrad();
        nn::function::CrossEntropy((*net_)({images_})[0], labels_)->Backward();
        optimizer_.Step();
        if (log_ != nullptr) {
            log_->NextStep();
        }
    }

private:
    std::shared_ptr<nn::Sequential> net_ = std::make_shared<nn::Sequential>(
        std::make_shared<nn::Linear>(784, 512), std::make_shared<nn::Relu>(), std::make_shared<nn::Linear>(512, 512),
        std::make_shared<nn::Relu>(), std::make_shared<nn::Linear>(512, 10));
    optimizers::Adam optimizer_{net_->Parameters()};
    TensorPtr images_ = Tensor::Randn({64, 784});
    TensorPtr labels_ = Tensor::RandInt(0, 10, {64});
    std::shared_ptr<utils::MonitorLog> log_;
    std::unique_ptr<utils::ActivationMonitor> activations_;
    std::unique_ptr<utils::GradientFlow> gradients_;
};

void CompareSteps(const std::string &name, const utils::MonitorOptions &options) {
    Training plain(nullptr);
    Training monitored(&options);
    Compare(
        name, 20, [&] { monitored.Step(); }, [&] { plain.Step(); });
}

void Run() {
    for (const int64_t elements : {1000, 100000, 20000000}) {
        const auto x = Tensor::Randn({elements});
        const int calls = static_cast<int>(std::max<int64_t>(1, 2000000 / elements));
        const std::string of = " of " + std::to_string(elements) + " float32, beside Sum()";
        const auto sum = [&] { x->Sum(); };
        Compare(
            "statistics" + of, calls, [&] { utils::ComputeStatistics(*x); }, sum);
        Compare(
            "statistics with histogram" + of, calls, [&] { utils::ComputeStatistics(*x, true); }, sum);
    }
    CompareSteps("step with all monitors", {.every = 1, .histograms = false});
    CompareSteps("step with all monitors and histograms", {.every = 1});
    CompareSteps("step with all monitors and histograms, every 10th", {.every = 10});
    CompareSteps("step with all monitors and histograms, every 100th", {.every = 100});
}

}  // namespace
}  // namespace infini_train

int main(int argc, char **argv) {
    infini_train::SetNumThreads(argc > 1 ? std::atoi(argv[1]) : 1);
    infini_train::Run();
}
