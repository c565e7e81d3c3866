// Training steps of a GPT-2 from weights and tokens that torch_gpt2_step.py has written, for scripts/bench_gpt2.sh.
//
//   gpt2_step_bench FOLDER THREADS [DEVICE [DTYPE]]
//
// DEVICE is cpu or cuda, DTYPE float32 or bfloat16 (with float32 masters in the optimizer).
//
// Reads FOLDER/weights.safetensors (Hugging Face's names, matrices as (out, in)) and FOLDER/tokens.safetensors
// (`tokens`, (steps, B, T + 1)). Prints a line each: `loss`, tab, value for every step; `ms`, tab, the median of a
// step; `peak_mib`, tab, the most memory that the process, or on
// a GPU the device's allocator, has held.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iomanip>
#include <iostream>
#include <string>
#include <sys/resource.h>
#include <vector>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/allocator.h"
#include "infini_train/include/core/parallel.h"
#include "infini_train/include/io/safetensors.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/nn/modules/transformer/transformer.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"

namespace infini_train {
namespace {

// The first ones fill caches and make the optimizer's state.
constexpr int64_t kWarmUp = 2;

nn::TransformerConfig ConfigOf(const nn::StateDict &weights) {
    nn::TransformerConfig config;
    config.vocab_size = weights.at("wte.weight")->Dim(0);
    config.width = weights.at("wte.weight")->Dim(1);
    config.context = weights.at("wpe.weight")->Dim(0);
    config.heads = config.width / 64;
    config.layers = 0;
    while (weights.contains("h." + std::to_string(config.layers) + ".ln_1.weight")) {
        ++config.layers;
    }
    return config;
}

// The logits end here, as in the peer.
TensorPtr Loss(nn::Module &model, const TensorPtr &tokens, const TensorPtr &labels) {
    const TensorPtr logits = model({tokens})[0];
    return nn::function::CrossEntropy(logits->View({-1, logits->Dim(-1)}), labels->Reshape({-1}));
}

double PeakMib(Device device) {
    if (!device.IsCPU()) {
        return static_cast<double>(GetAllocator(device).Stats().peak) / (1 << 20);
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1024;
}

void Run(const std::string &folder, Device device, DataType dtype) {
    using Clock = std::chrono::steady_clock;
    nn::StateDict weights = io::LoadSafetensors(folder + "/weights.safetensors");
    const TensorPtr tokens = io::LoadSafetensors(folder + "/tokens.safetensors").at("tokens")->To(device);
    weights["lm_head.weight"] = weights.at("wte.weight");  // they are one
    nn::Transformer model(ConfigOf(weights), device, dtype, /*initialize=*/false);
    model.LoadStateDict(weights);
    weights.clear();
    optimizers::AdamW optimizer(model.Parameters(), 1e-4, 0.9, 0.95, 1e-8, 0.1);
    const int64_t length = tokens->Dim(2) - 1;
    std::vector<double> times;
    std::cout << std::setprecision(9);
    for (int64_t step = 0; step < tokens->Dim(0); ++step) {
        const TensorPtr batch = tokens->Select(0, step);
        const auto start = Clock::now();
        optimizer.ZeroGrad();
        const TensorPtr loss = Loss(model, batch->Narrow(1, 0, length), batch->Narrow(1, 1, length));
        loss->Backward();
        optimizer.Step();
        std::cout << "loss\t" << loss->Item<double>() << '\n';
        if (step >= kWarmUp) {
            times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
        }
    }
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    std::cout << "ms\t" << times[times.size() / 2] << "\npeak_mib\t" << PeakMib(device) << std::endl;
}

}  // namespace
}  // namespace infini_train

int main(int argc, char **argv) {
    if (argc < 3 || argc > 5) {
        std::cerr << "usage: gpt2_step_bench FOLDER THREADS [DEVICE [DTYPE]]\n";
        return 2;
    }
    try {
        infini_train::SetNumThreads(std::atoi(argv[2]));
        const auto device = infini_train::Device::FromString(argc > 3 ? argv[3] : "cpu");
        const std::string dtype = argc > 4 ? argv[4] : "float32";
        if (dtype != "float32" && dtype != "bfloat16") {
            throw infini_train::ValueError("expected float32 or bfloat16, got " + dtype);
        }
        infini_train::Run(argv[1], device,
                          dtype == "float32" ? infini_train::DataType::kFLOAT32 : infini_train::DataType::kBFLOAT16);
    } catch (const std::exception &error) {
        std::cerr << "gpt2_step_bench: " << error.what() << '\n';
        return 1;
    }
    return 0;
}
