#include <cstdint>
#include <cstdio>
#include <vector>

#include "infini_train/include/common/error.h"
#include "infini_train/include/common/version.h"
#include "infini_train/include/core/parallel.h"

// The sum of 0..n-1 written by a ParallelFor of the library that this program was linked to.
int main() {
    constexpr int64_t kCount = 1000;
    std::vector<int64_t> values(kCount);
    infini_train::ParallelFor(0, kCount, 16, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            values[i] = i;
        }
    });
    int64_t sum = 0;
    for (int64_t value : values) {
        sum += value;
    }
    try {
        infini_train::SetNumThreads(0);
    } catch (const infini_train::ValueError &) {
        std::printf("infini_train %d.%d: %lld\n", infini_train::kVersionMajor, infini_train::kVersionMinor,
                    static_cast<long long>(sum));
        return sum == kCount * (kCount - 1) / 2 ? 0 : 1;
    }
    return 1;
}
