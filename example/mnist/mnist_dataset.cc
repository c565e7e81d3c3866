#include "example/mnist/mnist_dataset.h"

#include <array>
#include <cmath>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

namespace infini_train::example {

PixelStats StatsOf(const IdxImages &images) {
    std::array<double, 256> counts{};
    for (const uint8_t pixel : images.pixels) {
        ++counts[pixel];
    }
    double sum = 0;
    double squares = 0;
    for (size_t value = 0; value < counts.size(); ++value) {
        const double white = static_cast<double>(value) / 255;
        sum += counts[value] * white;
        squares += counts[value] * white * white;
    }
    const auto total = static_cast<double>(images.pixels.size());
    const double mean = sum / total;
    const double variance = squares / total - mean * mean;
    return {mean, variance > 0 ? std::sqrt(variance) : 1.0};
}

MnistDataset::MnistDataset(MnistSplit split, const PixelStats &stats)
    : split_(std::move(split)),
      scale_(static_cast<float>(1 / (255 * stats.std))),
      shift_(static_cast<float>(-stats.mean / stats.std)) {}

std::pair<TensorPtr, TensorPtr> MnistDataset::operator[](size_t idx) const {
    const int64_t index = static_cast<int64_t>(idx);
    const auto [images, labels] = Batch({&index, 1});
    return {images->Select(0, 0), labels->Select(0, 0)};
}

std::pair<TensorPtr, TensorPtr> MnistDataset::Batch(std::span<const int64_t> indices) const {
    const IdxImages &images = split_.images;
    const auto count = static_cast<int64_t>(indices.size());
    const int64_t pixels = images.rows * images.cols;
    auto x = Tensor::Empty({count, 1, images.rows, images.cols});
    auto y = Tensor::Empty({count}, DataType::kINT64);
    for (int64_t i = 0; i < count; ++i) {
        const int64_t index = indices[static_cast<size_t>(i)];
        if (index < 0 || index >= images.count) {
            throw IndexError("MnistDataset: sample " + std::to_string(index) + " of " + std::to_string(images.count));
        }
        const uint8_t *from = images.pixels.data() + index * pixels;
        float *to = x->Data<float>() + i * pixels;
        for (int64_t p = 0; p < pixels; ++p) {
            to[p] = static_cast<float>(from[p]) * scale_ + shift_;
        }
        y->Data<int64_t>()[i] = split_.labels[static_cast<size_t>(index)];
    }
    return {x, y};
}

}  // namespace infini_train::example
