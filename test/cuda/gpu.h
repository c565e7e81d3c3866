#pragma once

#include <cstdlib>

#include <gtest/gtest.h>

#include "infini_train/include/core/device_backend.h"
#include "infini_train/include/device.h"

/// At the start of a test or of its SetUp: skips it where there is no GPU, or fails where INFINI_TRAIN_REQUIRE_GPU says
/// that there must be one.
#define INFINI_TRAIN_NEEDS_GPU()                                                  \
    if (!HasDevice(DeviceType::kCUDA)) {                                          \
        if (std::getenv("INFINI_TRAIN_REQUIRE_GPU") != nullptr) {                 \
            FAIL() << "INFINI_TRAIN_REQUIRE_GPU is set, and no device was found"; \
        }                                                                         \
        GTEST_SKIP() << "there is no GPU";                                        \
    }                                                                             \
    static_assert(true, "a semicolon follows")

namespace infini_train::test {

inline Device Gpu() {
    return DeviceType::kCUDA;
}

}  // namespace infini_train::test
