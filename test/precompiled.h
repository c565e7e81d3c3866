#pragma once

// What most tests include, compiled once; see INFINI_TRAIN_PRECOMPILED_HEADERS. No file includes this one.

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/tensor.h"
