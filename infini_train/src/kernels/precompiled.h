#pragma once

// What most CPU kernels include besides Highway, compiled once; see INFINI_TRAIN_PRECOMPILED_HEADERS. No file includes
// this one.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/core/parallel.h"
#include "infini_train/include/scalar.h"

#include "infini_train/src/kernels/tensor_ref.h"
