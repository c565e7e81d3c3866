#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "infini_train/include/common/error.h"
#include "infini_train/include/datatype.h"

namespace infini_train {

/// Calls `body.template operator()<T>()` with the C++ type of `dtype`, one of all data types:
///
///     DispatchDtype(tensor->Dtype(), [&]<typename T>() { Fill(tensor->Data<T>()); });
template <typename Body>
decltype(auto) DispatchDtype(DataType dtype, Body &&body) {
    switch (dtype) {
#define INFINI_TRAIN_CASE(T, name) \
    case DataType::name:           \
        return body.template operator()<T>();
        INFINI_TRAIN_FOR_EACH_DATA_TYPE(INFINI_TRAIN_CASE)
#undef INFINI_TRAIN_CASE
    }
    throw InternalError("DispatchDtype: unknown data type " + std::to_string(static_cast<int>(dtype)));
}

/// The same for the floating-point types only; any other throws a DtypeError that begins with `name`.
template <typename Body>
decltype(auto) DispatchFloatingDtype(DataType dtype, const char *name, Body &&body) {
    switch (dtype) {
        case DataType::kFLOAT32:
            return body.template operator()<float>();
        case DataType::kFLOAT64:
            return body.template operator()<double>();
        case DataType::kBFLOAT16:
            return body.template operator()<BFloat16>();
        case DataType::kFLOAT16:
            return body.template operator()<Float16>();
        default:
            throw DtypeError(std::string(name) + ": expected a floating-point tensor, got " + ToString(dtype));
    }
}

/// The same for the integer types (not bool), as indices and class labels may have.
template <typename Body>
decltype(auto) DispatchIntegralDtype(DataType dtype, const char *name, Body &&body) {
    switch (dtype) {
        case DataType::kUINT8:
            return body.template operator()<uint8_t>();
        case DataType::kINT8:
            return body.template operator()<int8_t>();
        case DataType::kUINT16:
            return body.template operator()<uint16_t>();
        case DataType::kINT16:
            return body.template operator()<int16_t>();
        case DataType::kUINT32:
            return body.template operator()<uint32_t>();
        case DataType::kINT32:
            return body.template operator()<int32_t>();
        case DataType::kUINT64:
            return body.template operator()<uint64_t>();
        case DataType::kINT64:
            return body.template operator()<int64_t>();
        default:
            throw DtypeError(std::string(name) + ": expected an integer tensor, got " + ToString(dtype));
    }
}

}  // namespace infini_train
