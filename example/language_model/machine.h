#pragma once

#include <cstdint>
#include <string>

#include "infini_train/include/device.h"
#include "infini_train/include/nn/modules/transformer/transformer.h"
#include "infini_train/include/utils/terminal.h"

namespace infini_train::example {

using utils::FormatBytes;

/// The floating-point operations a second that a product of two 512 x 512 float32 matrices reaches, the best within a
/// tenth of a second: what a training could do at most.
double MeasurePeakFlops(Device device);

/// The floating-point operations that a token of training needs: 6 for each weight of a matrix it is multiplied with
/// (2 forward, 4 backward), and 6 T width a layer for attention to the half of T positions that stands before it.
/// What is computed again for --checkpoint_activations doesn't count.
double TrainingFlopsPerToken(const nn::TransformerConfig &config, int64_t sequence_length);

/// The most memory that the process has had, and what it has now, in bytes; 0 where the system doesn't say.
int64_t PeakProcessMemory();
int64_t ProcessMemory();

struct TrainingShape {
    Device device;
    int64_t batch_size = 1;
    int64_t sequence_length = 1;
    int64_t accumulation = 1;
};

struct MemoryForecast {
    int64_t parameters = 0;
    int64_t gradients = 0;
    int64_t optimizer = 0;
    int64_t activations = 0;  // what a batch needs at most, gradients that come meanwhile included
    int64_t tensors = 0;      // the most that all of them need at one time
    int64_t process = 0;      // the same with the program, its data and its threads
};

/// What training the model with AdamW will need: a batch goes forward and backward once, which shows all but the
/// optimizer's part. Leaves gradients empty and the default generator as it was. `extra` bytes will be needed besides.
MemoryForecast ForecastMemory(nn::Transformer &model, const TrainingShape &shape, int64_t extra);

}  // namespace infini_train::example
