#pragma once

#include "infini_train/include/utils/table.h"

namespace infini_train::example {

using utils::Table;

}  // namespace infini_train::example
