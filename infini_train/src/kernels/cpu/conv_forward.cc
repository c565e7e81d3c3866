#include <algorithm>
#include <cstdint>
#include <vector>

#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/conv_forward.cc"
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

// Bytes of the input that the tiles of all output channels read in turn.
constexpr int64_t kForwardBlock = 192 * 1024;

/// Each thread takes some tiles of output channels of some images, and convolves the image directly: a vector holds
/// neighbouring outputs of a row, whose inputs lie side by side for every tap.
template <typename T>
class Forward {
public:
    Forward(const kernels::Conv2dShape &shape, const T *input, const T *weight, const T *bias, T *output)
        : s_(shape),
          input_(input),
          bias_(bias),
          output_(output),
          lanes_(static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()))),
          group_in_(shape.in_channels / shape.groups),
          group_out_(shape.out_channels / shape.groups),
          tiles_(NumTiles(group_out_)),
          taps_(group_in_ * shape.kernel_height * shape.kernel_width),
          image_(shape, lanes_, shape.out_width < lanes_),
          offsets_(image_.TapOffsets(group_in_)),
          weights_(shape.out_channels * taps_) {
        for (int64_t i = 0; i < s_.out_height; ++i) {
            for (int64_t j = 0; j < s_.out_width; j += lanes_) {
                // The last vector of a row overlaps the one before rather than hang over.
                const int64_t column = std::max<int64_t>(0, std::min(j, s_.out_width - lanes_));
                x_at_.push_back(image_.At(i, column));
                out_at_.push_back(i * s_.out_width + column);
            }
        }
        PackWeights(weight);
    }

    void Run() {
        const int64_t work = taps_ * s_.out_height * s_.out_width * group_out_ / tiles_;
        const int64_t items = s_.batch * s_.groups * tiles_;
        ParallelFor(0, items, kConvMinWork / std::max<int64_t>(work, 1) + 1, [&](int64_t begin, int64_t end) {
            const Scratch<T> prepared(image_.direct() ? 0 : image_.Size(group_in_));
            if (!image_.direct()) {
                image_.Clear(group_in_, prepared.data());
            }
            for (int64_t i = begin; i < end;) {
                const int64_t tile = i % tiles_, last = std::min(tiles_, tile + end - i);
                RunTiles(i / tiles_ / s_.groups, i / tiles_ % s_.groups, tile, last, prepared.data());
                i += last - tile;
            }
        });
    }

private:
    // (channels, taps) to (taps, channels of the tile) for each tile.
    void PackWeights(const T *weight) {
        const int64_t grain = kConvMinWork / std::max<int64_t>(taps_ * kMaxTileRows, 1) + 1;
        ParallelFor(0, s_.groups * tiles_, grain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                const int64_t first = i / tiles_ * group_out_ + TileBegin(group_out_, i % tiles_);
                const int64_t rows = i / tiles_ * group_out_ + TileBegin(group_out_, i % tiles_ + 1) - first;
                T *to = weights_.data() + first * taps_;
                for (int64_t tap = 0; tap < taps_; ++tap) {
                    for (int64_t r = 0; r < rows; ++r) {
                        *to++ = weight[(first + r) * taps_ + tap];
                    }
                }
            }
        });
    }

    void RunTiles(int64_t n, int64_t group, int64_t begin, int64_t end, T *prepared) const {
        const T *x = input_ + (n * s_.in_channels + group * group_in_) * s_.in_height * s_.in_width;
        if (!image_.direct()) {
            image_.Fill(x, group_in_, prepared);
            x = prepared;
        }
        const auto vectors = static_cast<int64_t>(x_at_.size());
        const int64_t vector_bytes =
            group_in_ * s_.stride_height * s_.stride_width * lanes_ * static_cast<int64_t>(sizeof(T));
        const int64_t block = std::max<int64_t>(kForwardBlock / vector_bytes, 4 * kMaxTileVectors);
        for (int64_t v = 0; v < vectors; v += block) {
            for (int64_t tile = begin; tile < end; ++tile) {
                RunTile(x, n, group, tile, v, std::min(vectors, v + block));
            }
        }
    }

    void RunTile(const T *x, int64_t n, int64_t group, int64_t tile, int64_t v_begin, int64_t v_end) const {
        const int64_t first = group * group_out_ + TileBegin(group_out_, tile);
        const int64_t rows = group * group_out_ + TileBegin(group_out_, tile + 1) - first;
        const int64_t plane = s_.out_height * s_.out_width;
        T *const out = output_ + (n * s_.out_channels + first) * plane;
        const bool whole = s_.out_width >= lanes_;
        T narrow[kMaxTileRows * kMaxTileVectors * hn::MaxLanes(hn::ScalableTag<T>())];

        TapTileArgs<T> args;
        args.weights = weights_.data() + first * taps_;
        args.offsets = offsets_.data();
        args.taps = taps_;
        args.init = bias_ == nullptr ? nullptr : bias_ + first;
        args.out_row = whole ? plane : kMaxTileVectors * lanes_;
        const int64_t width = TileVectors(static_cast<int>(rows));
        for (int64_t v = v_begin; v < v_end; v += width) {
            const int64_t count = std::min(width, v_end - v);
            for (int64_t k = 0; k < count; ++k) {
                args.x[k] = x + x_at_[v + k];
                args.out[k] = whole ? out + out_at_[v + k] : narrow + k * lanes_;
            }
            FindTapTile<T>(rows, count)(args);
            for (int64_t r = 0; r < rows && !whole; ++r) {
                for (int64_t k = 0; k < count; ++k) {
                    std::copy_n(narrow + (r * kMaxTileVectors + k) * lanes_, s_.out_width,
                                out + r * plane + out_at_[v + k]);
                }
            }
        }
    }

    const kernels::Conv2dShape s_;
    const T *const input_, *const bias_;
    T *const output_;
    const int64_t lanes_;
    const int64_t group_in_, group_out_;  // channels
    const int64_t tiles_;                 // of the output channels of a group
    const int64_t taps_;
    const ConvImage image_;
    const std::vector<int64_t> offsets_;
    std::vector<int64_t> x_at_, out_at_;  // of each vector of outputs
    const Scratch<T> weights_;
};

void ForwardFloat(const kernels::Conv2dShape &shape, const float *input, const float *weight, const float *bias,
                  float *output) {
    Forward<float>(shape, input, weight, bias, output).Run();
}

void ForwardDouble(const kernels::Conv2dShape &shape, const double *input, const double *weight, const double *bias,
                   double *output) {
    Forward<double>(shape, input, weight, bias, output).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train::cpu {

HWY_EXPORT(ForwardFloat);
HWY_EXPORT(ForwardDouble);

void Conv2dForward(const kernels::Conv2dShape &shape, const float *input, const float *weight, const float *bias,
                   float *output) {
    HWY_DYNAMIC_DISPATCH(ForwardFloat)(shape, input, weight, bias, output);
}

void Conv2dForward(const kernels::Conv2dShape &shape, const double *input, const double *weight, const double *bias,
                   double *output) {
    HWY_DYNAMIC_DISPATCH(ForwardDouble)(shape, input, weight, bias, output);
}

}  // namespace infini_train::cpu
#endif
