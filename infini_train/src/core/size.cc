#include "infini_train/src/core/size.h"

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"

namespace infini_train {

int64_t CheckedNumElements(std::span<const int64_t> dims, const char *name) {
    int64_t product = 1;
    bool overflow = false;
    bool empty = false;
    for (const int64_t dim : dims) {
        if (dim < 0) {
            Throw<ShapeError>("{}: expected sizes of at least 0, got {}", name, FormatDims(dims));
        }
        empty |= dim == 0;
        overflow |= __builtin_mul_overflow(product, dim, &product);
    }
    if (empty) {
        return 0;
    }
    if (overflow) {
        Throw<ShapeError>("{}: expected fewer than 2^63 elements, got {}", name, FormatDims(dims));
    }
    return product;
}

size_t CheckedBytes(int64_t num_elements, DataType dtype, const char *name) {
    int64_t bytes = 0;
    if (__builtin_mul_overflow(num_elements, static_cast<int64_t>(SizeOf(dtype)), &bytes)) {
        Throw<ShapeError>("{}: expected fewer than 2^63 bytes, got {} elements of {}", name, num_elements,
                          ToString(dtype));
    }
    return static_cast<size_t>(bytes);
}

}  // namespace infini_train
