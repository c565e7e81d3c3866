#include "infini_train/include/scalar.h"

#include "infini_train/src/common/format.h"

namespace infini_train {

DataType Scalar::Dtype() const {
    switch (kind_) {
        case Kind::kBool:
            return DataType::kBOOL;
        case Kind::kUInt:
            return DataType::kUINT64;
        case Kind::kDouble:
            return DataType::kFLOAT64;
        default:
            return DataType::kINT64;
    }
}

std::string Scalar::ToString() const {
    switch (kind_) {
        case Kind::kBool:
            return int_ != 0 ? "true" : "false";
        case Kind::kUInt:
            return fmt::format("{}", uint_);
        case Kind::kInt:
            return fmt::format("{}", int_);
        default: {
            std::string text = fmt::format("{}", double_);
            // As in Python, a float shows that it is one.
            return text.find_first_of(".eni") == std::string::npos ? text + ".0" : text;
        }
    }
}

}  // namespace infini_train
