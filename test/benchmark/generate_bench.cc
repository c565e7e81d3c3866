// Sampling beside what memory allows: each token needs every weight once, so that the time to read them bounds it.
//
//     generate_bench [MODEL] [TOKENS] [THREADS]
//
// MODEL is a name of Gpt2Preset or LlamaPreset (default gpt2, random weights) or a path as for LoadModel. Reading and
// sampling take turns, and the best of each counts: a machine's bandwidth changes with what others do.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <hwy/highway.h>

#include "infini_train/include/core/parallel.h"
#include "infini_train/include/tensor.h"

#include "example/common/clock.h"
#include "example/language_model/generate.h"
#include "example/language_model/model_files.h"

namespace infini_train::example {
namespace {

// The bytes a second at which all threads together read `buffer`, which no cache holds.
double ReadBandwidth(const Tensor &buffer) {
    namespace hn = hwy::HWY_NAMESPACE;
    const hn::ScalableTag<float> d;
    constexpr int64_t kGrain = 1 << 16;
    constexpr size_t kSums = 8;
    const float *from = buffer.Data<float>();
    const double begin = SecondsNow();
    ParallelFor(0, buffer.NumElements(), kGrain, [&](int64_t first, int64_t last) {
        hn::Vec<decltype(d)> sums[kSums];
        std::fill(sums, sums + kSums, hn::Zero(d));
        for (const float *at = from + first; at < from + last; at += kSums * hn::Lanes(d)) {
            for (size_t i = 0; i < kSums; ++i) {
                sums[i] = hn::Add(sums[i], hn::LoadU(d, at + i * hn::Lanes(d)));
            }
        }
        for (const auto &sum : sums) {
            benchmark::DoNotOptimize(hn::GetLane(hn::SumOfLanes(d, sum)));
        }
    });
    return static_cast<double>(buffer.SizeInBytes()) / (SecondsNow() - begin);
}

// What a token reads: all weights, but only one row of the tables of tokens and positions unless they are the head.
double BytesPerToken(const nn::Transformer &model) {
    double bytes = 0;
    for (const auto &[name, parameter] : model.NamedParameters()) {
        const bool is_table = name == "wpe.weight" || (name == "wte.weight" && !model.config().tied);
        bytes +=
            static_cast<double>(parameter->SizeInBytes()) / (is_table ? static_cast<double>(parameter->Dim(0)) : 1);
    }
    return bytes;
}

std::shared_ptr<nn::Transformer> NewModel(const std::string &name) {
    for (const auto &preset : {Gpt2Preset(name), LlamaPreset(name)}) {
        if (preset.has_value()) {
            return std::make_shared<nn::Transformer>(*preset);
        }
    }
    return LoadModel(name, DataType::kFLOAT32).model;
}

void Run(const std::string &name, int64_t tokens) {
    const auto model = NewModel(name);
    const double bytes = BytesPerToken(*model);
    const TensorPtr buffer = Tensor::Ones({int64_t{1} << 27});  // 512 MiB
    std::printf("%s: %.1f MB a token, %d threads\n", name.c_str(), bytes / 1e6, GetNumThreads());

    const struct {
        const char *name;
        SamplingOptions options;
    } ways[] = {
        {"greedy", {.temperature = 0}}, {"plain", {}}, {"top-k 40", {.top_k = 40}}, {"top-p 0.9", {.top_p = 0.9}}};
    for (const auto &way : ways) {
        double bandwidth = 0;
        double seconds_per_token = std::numeric_limits<double>::infinity();
        for (int round = 0; round < 3; ++round) {
            for (int again = 0; again < 3; ++again) {
                bandwidth = std::max(bandwidth, ReadBandwidth(*buffer));
            }
            // The first token is the prompt's pass; each later one is timed by itself.
            double last = SecondsNow();
            int64_t done = 0;
            double sum = 0;
            const std::vector<text::TokenId> prompt{1};
            Generate(*model, prompt, tokens + 1, way.options, nullptr, [&](text::TokenId) {
                const double now = SecondsNow();
                sum += done++ > 0 ? now - last : 0;
                last = now;
                return true;
            });
            seconds_per_token = std::min(seconds_per_token, sum / static_cast<double>(tokens));
        }
        std::printf("%-10s %7.2f tokens/s, %6.2f GB/s of %6.2f GB/s read: %5.1f %%\n", way.name, 1 / seconds_per_token,
                    bytes / seconds_per_token / 1e9, bandwidth / 1e9, 100 * bytes / seconds_per_token / bandwidth);
    }
}

}  // namespace
}  // namespace infini_train::example

int main(int argc, char **argv) {
    try {
        if (argc > 3) {
            infini_train::SetNumThreads(std::atoi(argv[3]));
        }
        infini_train::example::Run(argc > 1 ? argv[1] : "gpt2", argc > 2 ? std::atoll(argv[2]) : 20);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
