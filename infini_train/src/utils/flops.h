#pragma once

#include <span>

#include "infini_train/include/utils/flops.h"

namespace infini_train::utils {

/// The costs of one type of operator.
struct CostRow {
    const char *type;
    Cost (*forward)(const OperatorCall &call);
    Cost (*backward)(const OperatorCall &call);
};

/// Of all operators of the library.
std::span<const CostRow> CostTable();

}  // namespace infini_train::utils
