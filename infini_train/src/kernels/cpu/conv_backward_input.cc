#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/conv_backward_input.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/conv.h"
#include "infini_train/src/kernels/cpu/conv_tiles.h"
#include "infini_train/src/kernels/cpu/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

// Output positions whose contributions are made before they are added up.
constexpr int64_t kPositions = 1024;

/// Each thread takes some blocks of input channels of some images. For every tap the sum over the output channels of
/// gradient times weight is made for all output positions at once, then added to the inputs that the tap saw.
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
          window_(shape.kernel_height * shape.kernel_width),
          plane_(shape.out_height * shape.out_width),
          channels_(kMaxTileRows / std::gcd(window_, int64_t{kMaxTileRows})),
          blocks_((group_in_ + channels_ - 1) / channels_),
          weights_(shape.out_channels * group_in_ * window_) {
        const int64_t planes = plane_ < lanes_ ? lanes_ : plane_;
        for (int64_t o = 0; o < group_out_; ++o) {
            offsets_.push_back(o * planes);
        }
        PackWeights(weight);
    }

    void Run() {
        const int64_t work = channels_ * window_ * group_out_ * plane_;
        const int64_t items = s_.batch * s_.groups * blocks_;
        const int64_t grain = kConvMinWork / std::max<int64_t>(work, 1) + 1;
        ParallelFor(0, items, grain, [&](int64_t begin, int64_t end) {
            // Fewer positions than lanes: each plane is given room to be read as a vector.
            const Scratch<T> widened(plane_ < lanes_ ? group_out_ * lanes_ : 0);
            const Scratch<T> columns(kMaxTileRows * ColumnsRow());
            for (int64_t i = begin; i < end; ++i) {
                const int64_t n = i / blocks_ / s_.groups, group = i / blocks_ % s_.groups;
                const T *y = grad_output_ + (n * s_.out_channels + group * group_out_) * plane_;
                if (plane_ < lanes_) {
                    for (int64_t o = 0; o < group_out_; ++o) {
                        T *const end_of_plane = std::copy_n(y + o * plane_, plane_, widened.data() + o * lanes_);
                        std::fill_n(end_of_plane, lanes_ - plane_, T(0));
                    }
                    y = widened.data();
                }
                RunBlock(y, n, group, i % blocks_, columns.data());
            }
        });
    }

private:
    int64_t RowsPerStep() const { return std::clamp<int64_t>(kPositions / s_.out_width, 1, s_.out_height); }
    int64_t ColumnsRow() const { return RowsPerStep() * s_.out_width + 2 * lanes_; }

    // (output channels, rows) to (output channels, rows of the tile) for each tile, where a row is an input channel and
    // a place in the window.
    void PackWeights(const T *weight) {
        const int64_t rows = group_in_ * window_;
        const int64_t tiles = (rows + kMaxTileRows - 1) / kMaxTileRows;
        const int64_t grain = kConvMinWork / std::max<int64_t>(group_out_ * kMaxTileRows, 1) + 1;
        ParallelFor(0, s_.groups * tiles, grain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                const int64_t group = i / tiles, first = i % tiles * kMaxTileRows;
                const int64_t height = std::min<int64_t>(kMaxTileRows, rows - first);
                const T *from = weight + group * group_out_ * rows + first;
                T *to = weights_.data() + (group * rows + first) * group_out_;
                for (int64_t o = 0; o < group_out_; ++o) {
                    to = std::copy_n(from + o * rows, height, to);
                }
            }
        });
    }

    void RunBlock(const T *y, int64_t n, int64_t group, int64_t block, T *columns) const {
        const int64_t first = block * channels_;
        const int64_t channels = std::min(channels_, group_in_ - first);
        const int64_t in_plane = s_.in_height * s_.in_width;
        T *const x = grad_input_ + (n * s_.in_channels + group * group_in_ + first) * in_plane;
        std::fill_n(x, channels * in_plane, T(0));
        const T *weights = weights_.data() + (group * group_in_ + first) * window_ * group_out_;
        const int64_t step = RowsPerStep();
        for (int64_t row = 0; row < s_.out_height; row += step) {
            const int64_t last = std::min(s_.out_height, row + step);
            for (int64_t r = 0; r < channels * window_; r += kMaxTileRows) {
                const int64_t rows = std::min<int64_t>(kMaxTileRows, channels * window_ - r);
                const int64_t position =
                    MakeColumns(y, weights + r * group_out_, rows, row * s_.out_width, last * s_.out_width, columns);
                for (int64_t i = 0; i < rows; ++i) {
                    const int64_t channel = (r + i) / window_, tap = (r + i) % window_;
                    AddColumns(columns + i * ColumnsRow() - position, tap, row, last, x + channel * in_plane);
                }
            }
        }
    }

    // The sums over output channels for positions [begin, end); gives the position that columns begin with.
    int64_t MakeColumns(const T *y, const T *weights, int64_t rows, int64_t begin, int64_t end, T *columns) const {
        const int64_t last = std::max<int64_t>(0, plane_ - lanes_);  // the last vector may overlap the one before
        const int64_t first = std::min(begin, last);
        TapTileArgs<T> args;
        args.weights = weights;
        args.offsets = offsets_.data();
        args.taps = group_out_;
        args.out_row = ColumnsRow();
        const int64_t width = TileVectors(static_cast<int>(rows));
        for (int64_t p = begin; p < end;) {
            int64_t count = 0;
            for (; count < width && p < end; ++count, p += lanes_) {
                const int64_t at = std::min(p, last);
                args.x[count] = y + at;
                args.out[count] = columns + at - first;
            }
            FindTapTile<T>(rows, count)(args);
        }
        return first;
    }

    // Adds what output rows [begin, end) contribute through one tap to the channel at x.
    void AddColumns(const T *columns, int64_t tap, int64_t begin, int64_t end, T *x) const {
        const int64_t row = tap / s_.kernel_width * s_.dilation_height - s_.padding_height;
        const int64_t column = tap % s_.kernel_width * s_.dilation_width - s_.padding_width;
        const int64_t stride = s_.stride_width;
        // Outputs whose input lies inside of the image.
        const int64_t left = column >= 0 ? 0 : (stride - 1 - column) / stride;
        const int64_t right = column >= s_.in_width ? 0 : (s_.in_width - 1 - column) / stride + 1;
        const int64_t count = std::min(right, s_.out_width) - left;
        for (int64_t i = begin; i < end; ++i) {
            const int64_t in_row = i * s_.stride_height + row;
            if (in_row < 0 || in_row >= s_.in_height) {
                continue;
            }
            const T *HWY_RESTRICT from = columns + i * s_.out_width + left;
            T *HWY_RESTRICT to = x + in_row * s_.in_width + left * stride + column;
            if (stride == 1) {
                for (int64_t j = 0; j < count; ++j) {
                    to[j] += from[j];
                }
            } else {
                for (int64_t j = 0; j < count; ++j) {
                    to[j * stride] += from[j];
                }
            }
        }
    }

    const kernels::Conv2dShape s_;
    const T *const grad_output_;
    T *const grad_input_;
    const int64_t lanes_;
    const int64_t group_in_, group_out_;  // channels
    const int64_t window_;                // places of the kernel
    const int64_t plane_;                 // output positions
    const int64_t channels_;              // in a block, so that its rows divide into tiles evenly
    const int64_t blocks_;
    std::vector<int64_t> offsets_;
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

void Conv2dBackwardInput(const kernels::Conv2dShape &shape, const float *grad_output, const float *weight,
                         float *grad_input) {
    HWY_DYNAMIC_DISPATCH(BackwardInputFloat)(shape, grad_output, weight, grad_input);
}

void Conv2dBackwardInput(const kernels::Conv2dShape &shape, const double *grad_output, const double *weight,
                         double *grad_input) {
    HWY_DYNAMIC_DISPATCH(BackwardInputDouble)(shape, grad_output, weight, grad_input);
}

}  // namespace infini_train::cpu
#endif
