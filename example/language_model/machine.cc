#include "example/language_model/machine.h"

#include <algorithm>
#include <cstdio>
#include <sys/resource.h>
#include <unistd.h>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/core/allocator.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/tensor.h"

#include "example/common/clock.h"
#include "example/language_model/trainer.h"

namespace infini_train::example {
namespace {}  // namespace

double MeasurePeakFlops(Device device) {
    constexpr int64_t kSize = 512;
    constexpr double kSeconds = 0.1;
    const autograd::NoGradGuard no_grad;
    const TensorPtr a = Tensor::Ones({kSize, kSize})->To(device);
    a->Matmul(a);
    double best = 1e9;
    const double begin = SecondsNow();
    do {
        const double start = SecondsNow();
        // Reading an element waits for the product.
        a->Matmul(a)->Slice({0, 0}, {1, 1}, {1, 1})->Item<double>();
        best = std::min(best, SecondsNow() - start);
    } while (SecondsNow() - begin < kSeconds);
    return 2.0 * kSize * kSize * kSize / best;
}

double TrainingFlopsPerToken(const nn::TransformerConfig &config, int64_t sequence_length) {
    int64_t weights = config.NumParameters();
    weights -= config.position == nn::PositionType::kLearned ? config.context * config.width : 0;
    weights -= config.tied ? 0 : config.vocab_size * config.width;  // a table to look up in; the output layer counts
    return 6.0 * static_cast<double>(weights) +
           6.0 * static_cast<double>(config.layers * config.heads * config.HeadSize() * sequence_length);
}

int64_t PeakProcessMemory() {
    rusage usage = {};
    return getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{1024} * usage.ru_maxrss : 0;
}

int64_t ProcessMemory() {
    std::FILE *file = std::fopen("/proc/self/statm", "r");
    if (file == nullptr) {
        return 0;
    }
    long all = 0, resident = 0;
    const bool is_read = std::fscanf(file, "%ld %ld", &all, &resident) == 2;
    std::fclose(file);
    return is_read ? int64_t{resident} * sysconf(_SC_PAGESIZE) : 0;
}

MemoryForecast ForecastMemory(nn::Transformer &model, const TrainingShape &shape, int64_t extra) {
    Allocator &allocator = GetAllocator(shape.device);
    const Generator::State random = DefaultGenerator().GetState();
    const MemoryStats before = allocator.Stats();
    const TensorPtr ids = Tensor::Zeros({shape.batch_size, shape.sequence_length}, DataType::kINT64)->To(shape.device);
    model.Train();
    allocator.ResetPeak();
    // From the second batch of a step on the gradients of the first are there.
    for (int64_t i = 0; i < std::min<int64_t>(shape.accumulation, 2); ++i) {
        LanguageModelLoss(model, ids, ids)->Backward();
    }
    const MemoryStats after = allocator.Stats();
    model.ZeroGrad();
    allocator.RestorePeak(before.peak);
    DefaultGenerator().SetState(random);

    MemoryForecast forecast;
    for (const TensorPtr &parameter : model.Parameters()) {
        const int64_t elements = parameter->NumElements();
        const auto size = static_cast<int64_t>(SizeOf(parameter->Dtype()));
        forecast.parameters += elements * size;
        // Two averages, and for 16 bits a copy of the parameter.
        forecast.optimizer += elements * 4 * (size < 4 ? 3 : 2);
    }
    forecast.gradients = static_cast<int64_t>(after.live - before.live);
    forecast.activations = static_cast<int64_t>(after.peak - before.live);
    forecast.tensors = static_cast<int64_t>(after.peak) + forecast.optimizer;
    // What the allocator has got from the system it keeps.
    forecast.process = ProcessMemory() + forecast.optimizer + extra;
    return forecast;
}

}  // namespace infini_train::example
