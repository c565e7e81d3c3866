#pragma once

// Where InfiniTrain has it.
#include "infini_train/include/core/device_guard.h"  // IWYU pragma: export
