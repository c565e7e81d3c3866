#include "infini_train/include/core/matmul_precision.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace infini_train {
namespace {

std::atomic<MatmulPrecision> &Precision() {
    static std::atomic<MatmulPrecision> precision = [] {
        const char *const value = std::getenv("INFINI_TRAIN_TF32");
        return value != nullptr && std::strcmp(value, "1") == 0 ? MatmulPrecision::kHigh : MatmulPrecision::kHighest;
    }();
    return precision;
}

}  // namespace

void SetFloat32MatmulPrecision(MatmulPrecision precision) {
    Precision().store(precision, std::memory_order_relaxed);
}

MatmulPrecision GetFloat32MatmulPrecision() {
    return Precision().load(std::memory_order_relaxed);
}

}  // namespace infini_train
