#pragma once

#include <cstdint>

#include "infini_train/include/common/export.h"

namespace infini_train {

/// How exact products of float32 matrices are. On the CPU they always are kHighest.
enum class MatmulPrecision : uint8_t {
    kHighest,  ///< float32 throughout
    kHigh,     ///< a GPU may round the factors to TF32 (10 bits of mantissa), several times as fast; sums are float32
};

/// For all threads, from the next product on. At first kHighest, or kHigh where the environment variable
/// INFINI_TRAIN_TF32 is 1.
INFINI_TRAIN_EXPORT void SetFloat32MatmulPrecision(MatmulPrecision precision);
INFINI_TRAIN_EXPORT MatmulPrecision GetFloat32MatmulPrecision();

}  // namespace infini_train
