#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "infini_train/include/dataset.h"

#include "example/mnist/idx.h"

namespace infini_train::example {

/// Mean and standard deviation of the pixels, as fractions of white.
struct PixelStats {
    double mean = 0;
    double std = 1;
};
PixelStats StatsOf(const IdxImages &images);

/// The images (1, rows, cols) as float32, shifted and scaled by `stats` to mean 0 and deviation 1, with their labels
/// (int64). The pixels stay bytes until a batch is made.
class MnistDataset : public Dataset {
public:
    MnistDataset(MnistSplit split, const PixelStats &stats);

    std::pair<TensorPtr, TensorPtr> operator[](size_t idx) const override;
    size_t Size() const override { return static_cast<size_t>(split_.images.count); }
    std::pair<TensorPtr, TensorPtr> Batch(std::span<const int64_t> indices) const override;

    const MnistSplit &split() const { return split_; }

private:
    MnistSplit split_;
    float scale_;
    float shift_;
};

}  // namespace infini_train::example
