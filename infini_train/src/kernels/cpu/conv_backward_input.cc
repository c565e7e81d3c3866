#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/conv_backward_input.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/conv.h"
#include "infini_train/src/kernels/cpu/conv_image.h"
#include "infini_train/src/kernels/cpu/conv_tiles.h"
#include "infini_train/src/kernels/cpu/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

// Bytes of the output's gradient that all taps read in turn.
constexpr int64_t kGradBlock = 128 * 1024;

/// Each thread takes some tiles of input channels of some images. For every tap the sum over the output channels of
/// gradient times weight is added to the inputs that the tap saw, in an image with room for the padding.
template <typename T>
class BackwardInput {
public:
    BackwardInput(const kernels::Conv2dShape &shape, const T *grad_output, const T *weight, T *grad_input)
        : s_(shape),
          grad_output_(grad_output),
          grad_input_(grad_input),
          lanes_(static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()))),
          group_in_(shape.in_channels / shape.groups),
          group_out_(shape.out_channels / shape.groups),
          tiles_(NumTiles(group_in_)),
          window_(shape.kernel_height * shape.kernel_width),
          image_(shape, lanes_, true),
          taps_(image_.TapOffsets(1)),
          weights_(shape.out_channels * group_in_ * window_) {
        for (int64_t i = 0; i < s_.out_height; ++i) {
            for (int64_t j = 0; j < s_.out_width; j += lanes_) {
                vectors_.push_back({i * s_.out_width + j, image_.At(i, j), std::min(lanes_, s_.out_width - j)});
            }
        }
        for (int64_t o = 0; o < group_out_; ++o) {
            offsets_.push_back(o * s_.out_height * s_.out_width);
        }
        PackWeights(weight);
    }

    void Run() const {
        const int64_t plane = s_.out_height * s_.out_width;
        const int64_t work = window_ * group_out_ * group_in_ / tiles_ * plane;
        const int64_t items = s_.batch * s_.groups * tiles_;
        ParallelFor(0, items, kConvMinWork / std::max<int64_t>(work, 1) + 1, [&](int64_t begin, int64_t end) {
            const Scratch<T> image(image_.Size(kMaxTileRows));
            // Vectors that hang over the last rows would read past the end of the tensor.
            const bool hangs_over = s_.out_width % lanes_ != 0;
            const Scratch<T> copy(hangs_over ? group_out_ * plane + lanes_ : 0);
            for (int64_t i = begin; i < end; ++i) {
                const int64_t n = i / tiles_ / s_.groups, group = i / tiles_ % s_.groups;
                const T *y = grad_output_ + (n * s_.out_channels + group * group_out_) * plane;
                const int64_t behind =
                    ((s_.batch - n) * s_.out_channels - (group + 1) * group_out_) * plane;  // elements of the tensor
                if (hangs_over && behind < lanes_) {
                    std::fill_n(std::copy_n(y, group_out_ * plane, copy.data()), lanes_, T(0));
                    y = copy.data();
                }
                RunTile(y, n, group, i % tiles_, image.data());
            }
        });
    }

private:
    struct Vector {
        int64_t y;      // where it lies in a plane of the output's gradient
        int64_t x;      // and in the image, for a tap with offset 0
        int64_t valid;  // elements before the row ends
    };

    // (output channels, input channels, taps) to (taps, output channels, channels of the tile) for each tile.
    void PackWeights(const T *weight) {
        const int64_t grain = kConvMinWork / std::max<int64_t>(group_out_ * window_ * kMaxTileRows, 1) + 1;
        ParallelFor(0, s_.groups * tiles_, grain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                const int64_t group = i / tiles_, first = TileBegin(group_in_, i % tiles_);
                const int64_t last = TileBegin(group_in_, i % tiles_ + 1);
                T *const to = weights_.data() + (group * group_in_ + first) * group_out_ * window_;
                for (int64_t o = 0; o < group_out_; ++o) {
                    for (int64_t c = first; c < last; ++c) {
                        const T *from = weight + ((group * group_out_ + o) * group_in_ + c) * window_;
                        for (int64_t tap = 0; tap < window_; ++tap) {
                            to[(tap * group_out_ + o) * (last - first) + c - first] = from[tap];
                        }
                    }
                }
            }
        });
    }

    void RunTile(const T *y, int64_t n, int64_t group, int64_t tile, T *image) const {
        const int64_t first = TileBegin(group_in_, tile), rows = TileBegin(group_in_, tile + 1) - first;
        const int64_t width = TileVectors(static_cast<int>(rows));
        const auto vectors = static_cast<int64_t>(vectors_.size());
        const int64_t block = std::max<int64_t>(kGradBlock / (group_out_ * lanes_ * static_cast<int64_t>(sizeof(T))),
                                                4 * kMaxTileVectors);
        TapTileArgs<T> args;
        args.offsets = offsets_.data();
        args.taps = group_out_;
        args.out_row = image_.channel_size();
        image_.Clear(rows, image);
        for (int64_t begin = 0; begin < vectors; begin += block) {
            const int64_t end = std::min(vectors, begin + block);
            args.weights = weights_.data() + (group * group_in_ + first) * group_out_ * window_;
            for (const int64_t tap : taps_) {
                for (int64_t v = begin; v < end; v += width) {
                    const int64_t count = std::min(width, end - v);
                    for (int64_t k = 0; k < count; ++k) {
                        const Vector &vector = vectors_[static_cast<size_t>(v + k)];
                        args.x[k] = y + vector.y;
                        args.out[k] = image + vector.x + tap;
                        args.valid[k] = vector.valid;
                    }
                    FindAddTile<T>(rows, count)(args);
                }
                args.weights += group_out_ * rows;
            }
        }
        const int64_t channel = n * s_.in_channels + group * group_in_ + first;
        image_.Extract(image, rows, grad_input_ + channel * s_.in_height * s_.in_width);
    }

    const kernels::Conv2dShape s_;
    const T *const grad_output_;
    T *const grad_input_;
    const int64_t lanes_;
    const int64_t group_in_, group_out_;  // channels
    const int64_t tiles_;                 // of the input channels of a group
    const int64_t window_;                // taps
    const ConvImage image_;
    const std::vector<int64_t> taps_;  // where each tap's input lies relative to a vector's
    std::vector<Vector> vectors_;
    std::vector<int64_t> offsets_;  // of the output channels' planes
    const Scratch<T> weights_;
};

void BackwardInputFloat(const kernels::Conv2dShape &shape, const float *grad_output, const float *weight,
                        float *grad_input) {
    BackwardInput<float>(shape, grad_output, weight, grad_input).Run();
}

void BackwardInputDouble(const kernels::Conv2dShape &shape, const double *grad_output, const double *weight,
                         double *grad_input) {
    BackwardInput<double>(shape, grad_output, weight, grad_input).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train::cpu {

HWY_EXPORT(BackwardInputFloat);
HWY_EXPORT(BackwardInputDouble);

namespace {

// Whether the gradient is best had as a convolution of the padded output's gradient with the flipped weight, which
// reads and writes less than adding up, but computes the zeros that the padding brings in.
bool IsConvolution(const kernels::Conv2dShape &s) {
    const auto vectors = [](int64_t height, int64_t width) { return height * ((width + 7) / 8); };
    return s.stride_height == 1 && s.stride_width == 1 &&
           s.dilation_height * (s.kernel_height - 1) >= s.padding_height &&
           s.dilation_width * (s.kernel_width - 1) >= s.padding_width &&
           vectors(s.in_height, s.in_width) * 4 <= vectors(s.out_height, s.out_width) * 5;
}

template <typename T>
void Convolve(const kernels::Conv2dShape &shape, const T *grad_output, const T *weight, T *grad_input) {
    kernels::Conv2dShape s = shape;
    std::swap(s.in_channels, s.out_channels);
    std::swap(s.in_height, s.out_height);
    std::swap(s.in_width, s.out_width);
    s.padding_height = s.dilation_height * (s.kernel_height - 1) - s.padding_height;
    s.padding_width = s.dilation_width * (s.kernel_width - 1) - s.padding_width;
    const int64_t window = s.kernel_height * s.kernel_width;
    const int64_t group_in = shape.in_channels / s.groups, group_out = shape.out_channels / s.groups;
    const Scratch<T> flipped(shape.in_channels * group_out * window);
    const int64_t grain = kConvMinWork / (8 * group_out * window) + 1;
    ParallelFor(0, shape.in_channels, grain, [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) {
            const int64_t first = c / group_in * group_out;
            T *to = flipped.data() + c * group_out * window;
            for (int64_t o = first; o < first + group_out; ++o, to += window) {
                const T *from = weight + (o * group_in + c % group_in) * window;
                std::reverse_copy(from, from + window, to);
            }
        }
    });
    Conv2dForward(s, grad_output, flipped.data(), nullptr, grad_input);
}

}  // namespace

void Conv2dBackwardInput(const kernels::Conv2dShape &shape, const float *grad_output, const float *weight,
                         float *grad_input) {
    if (IsConvolution(shape)) {
        Convolve(shape, grad_output, weight, grad_input);
    } else {
        HWY_DYNAMIC_DISPATCH(BackwardInputFloat)(shape, grad_output, weight, grad_input);
    }
}

void Conv2dBackwardInput(const kernels::Conv2dShape &shape, const double *grad_output, const double *weight,
                         double *grad_input) {
    if (IsConvolution(shape)) {
        Convolve(shape, grad_output, weight, grad_input);
    } else {
        HWY_DYNAMIC_DISPATCH(BackwardInputDouble)(shape, grad_output, weight, grad_input);
    }
}

}  // namespace infini_train::cpu
#endif
