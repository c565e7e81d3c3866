#include "infini_train/include/datatype.h"

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"

namespace infini_train {
namespace {

bool IsWideUnsigned(DataType dtype) {
    return dtype == DataType::kUINT16 || dtype == DataType::kUINT32 || dtype == DataType::kUINT64;
}

}  // namespace

std::string ToString(DataType dtype) {
    static constexpr const char *kNames[kNumDataTypes] = {"uint8",   "int8",    "uint16", "int16",    "uint32",
                                                          "int32",   "uint64",  "int64",  "bfloat16", "float16",
                                                          "float32", "float64", "bool"};
    const int index = static_cast<int>(dtype);
    return index >= 0 && index < kNumDataTypes ? kNames[index] : fmt::format("DataType({})", index);
}

DataType PromoteTypes(DataType a, DataType b) {
    if (a == b) {
        return a;
    }
    if (IsFloatingPoint(a) != IsFloatingPoint(b)) {
        return IsFloatingPoint(a) ? a : b;
    }
    if (IsFloatingPoint(a)) {
        if (SizeOf(a) == SizeOf(b)) {
            return DataType::kFLOAT32;  // bfloat16 with float16: neither holds the other
        }
        return SizeOf(a) > SizeOf(b) ? a : b;
    }
    if (IsWideUnsigned(a) || IsWideUnsigned(b)) {
        Throw<DtypeError>("PromoteTypes: expected uint16, uint32 and uint64 with themselves or a float, got {} and {}",
                          ToString(a), ToString(b));
    }
    if (a == DataType::kBOOL || b == DataType::kBOOL) {
        return a == DataType::kBOOL ? b : a;
    }
    if (SizeOf(a) == SizeOf(b)) {
        return DataType::kINT16;  // uint8 with int8
    }
    return SizeOf(a) > SizeOf(b) ? a : b;
}

}  // namespace infini_train
