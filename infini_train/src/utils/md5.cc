#include "infini_train/include/utils/md5.h"

#include <cmath>
#include <cstdint>
#include <md5.h>
#include <type_traits>
#include <vector>

#include "infini_train/include/common/error.h"
#include "infini_train/include/dtype_dispatch.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"

namespace infini_train::utils {

std::string Md5(const void *data, size_t size) {
    MD5_CTX context;
    MD5Init(&context);
    MD5Update(&context, static_cast<const uint8_t *>(data), size);
    uint8_t digest[MD5_DIGEST_LENGTH];
    MD5Final(digest, &context);
    std::string text;
    for (const uint8_t byte : digest) {
        text += fmt::format("{:02x}", byte);
    }
    return text;
}

std::string Md5(const Tensor &tensor, double tolerance) {
    if (!(tolerance >= 0) || !std::isfinite(tolerance)) {
        Throw<ValueError>("Md5: expected a tolerance of at least 0, got {}", tolerance);
    }
    if (tolerance > 0 && IsFloatingPoint(tensor.Dtype())) {
        std::vector<double> values = tensor.ToVector<double>();
        for (double &value : values) {
            value = std::nearbyint(value / tolerance) + 0.0;  // + 0: no negative zero
        }
        return Md5(values.data(), values.size() * sizeof(double));
    }
    if (tensor.IsContiguous() && tensor.GetDevice().IsCPU()) {
        return Md5(tensor.DataPtr(), tensor.SizeInBytes());
    }
    return DispatchDtype(tensor.Dtype(), [&]<typename T>() {
        using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;  // std::vector<bool> holds bits
        const std::vector<Stored> values = tensor.ToVector<Stored>();
        return Md5(values.data(), values.size() * sizeof(Stored));
    });
}

}  // namespace infini_train::utils
