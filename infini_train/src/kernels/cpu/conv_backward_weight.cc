#include <algorithm>
#include <cstdint>
#include <vector>

#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/conv_backward_weight.cc"
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

// Vectors of outputs over which a tile sums in registers.
constexpr int64_t kDotVectors = 128;
// Parts of the batch whose sums are made apart and then added up in order; at most so many elements for all of them.
constexpr int64_t kMaxParts = 16;
constexpr int64_t kMaxPartElements = int64_t{1} << 22;
constexpr int64_t kPartWork = 2000000;

/// A weight's gradient is a dot product of the output's gradient with the input as one tap sees it. The batch is cut
/// into parts, whatever the number of threads; a thread takes whole parts, or, where there is one only, tiles of output
/// channels.
template <typename T>
class BackwardWeight {
public:
    BackwardWeight(const kernels::Conv2dShape &shape, const T *grad_output, const T *input, T *grad_weight)
        : s_(shape),
          grad_output_(grad_output),
          input_(input),
          grad_weight_(grad_weight),
          lanes_(static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()))),
          group_in_(shape.in_channels / shape.groups),
          group_out_(shape.out_channels / shape.groups),
          tiles_(NumTiles(group_out_)),
          taps_(group_in_ * shape.kernel_height * shape.kernel_width),
          elements_(shape.out_channels * taps_),
          image_(shape, lanes_, shape.out_width % lanes_ != 0),
          offsets_(image_.TapOffsets(group_in_)) {
        ArrangeVectors();
        const int64_t work = shape.batch * elements_ * shape.out_height * shape.out_width;
        const int64_t room = std::max<int64_t>(1, kMaxPartElements / elements_);
        parts_ = std::max<int64_t>(1, std::min({work / kPartWork, shape.batch, room, kMaxParts}));
    }

    void Run() const {
        if (parts_ == 1) {
            std::fill_n(grad_weight_, elements_, T(0));
            RunImages(0, s_.batch, grad_weight_);
            return;
        }
        const Scratch<T> sums(parts_ * elements_);
        ParallelFor(0, parts_, 1, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                std::fill_n(sums.data() + i * elements_, elements_, T(0));
                RunImages(s_.batch * i / parts_, s_.batch * (i + 1) / parts_, sums.data() + i * elements_);
            }
        });
        ParallelFor(0, elements_, kConvMinWork / parts_, [&](int64_t begin, int64_t end) {
            std::copy(sums.data() + begin, sums.data() + end, grad_weight_ + begin);
            for (int64_t part = 1; part < parts_; ++part) {
                Add(sums.data() + part * elements_ + begin, end - begin, grad_weight_ + begin);
            }
        });
    }

private:
    // Vectors that a tile sums in one go: whole ones first, then those that end with their row.
    struct Block {
        int64_t begin, full, partial;
    };

    static void Add(const T *HWY_RESTRICT from, int64_t n, T *HWY_RESTRICT to) {
        for (int64_t i = 0; i < n; ++i) {
            to[i] += from[i];
        }
    }

    void ArrangeVectors() {
        const int64_t row_vectors = (s_.out_width + lanes_ - 1) / lanes_;
        const int64_t full = s_.out_width / lanes_;
        const int64_t rows = std::max<int64_t>(1, kDotVectors / row_vectors);
        for (int64_t i = 0; i < s_.out_height; i += rows) {
            const int64_t end = std::min(s_.out_height, i + rows);
            const auto begin = static_cast<int64_t>(at_.size());
            blocks_.push_back({begin, (end - i) * full, (end - i) * (row_vectors - full)});
            for (const bool partial : {false, true}) {
                for (int64_t row = i; row < end; ++row) {
                    for (int64_t v = partial ? full : 0; v < (partial ? row_vectors : full); ++v) {
                        at_.push_back(image_.At(row, v * lanes_));
                        y_at_.push_back(row * s_.out_width + v * lanes_);
                    }
                }
            }
        }
    }

    int64_t YPlane() const { return static_cast<int64_t>(at_.size()) * lanes_; }

    // Vectors of the gradient of one channel in the order of the blocks; what hangs over a row is 0.
    void PrepareGrad(const T *from, T *to) const {
        const hn::ScalableTag<T> d;
        [[maybe_unused]] const auto mask = hn::FirstN(d, static_cast<size_t>(s_.out_width % lanes_));
        for (const Block &block : blocks_) {
            const int64_t *at = y_at_.data() + block.begin;
            for (int64_t i = 0; i < block.full; ++i, ++at, to += lanes_) {
                hn::StoreU(hn::LoadU(d, from + *at), d, to);
            }
            for (int64_t i = 0; i < block.partial; ++i, ++at, to += lanes_) {
#if HWY_MEM_OPS_MIGHT_FAULT
                std::fill(std::copy_n(from + *at, s_.out_width % lanes_, to), to + lanes_, T(0));
#else
                hn::StoreU(hn::MaskedLoad(mask, d, from + *at), d, to);
#endif
            }
        }
    }

    // Adds the gradient from images [begin, end) to `out`.
    void RunImages(int64_t begin, int64_t end, T *out) const {
        const auto vectors = static_cast<int64_t>(at_.size());
        const int64_t step = std::clamp<int64_t>(kDotVectors / vectors, 1, std::max<int64_t>(end - begin, 1));
        const int64_t x_image = image_.direct() ? s_.in_channels * image_.channel_size() : image_.Size(s_.in_channels);
        const int64_t y_image = s_.out_channels * YPlane();
        // Where rows fill their vectors, the gradient already is as the tiles want it.
        const bool direct_y = s_.out_width % lanes_ == 0;
        const Scratch<T> prepared_x(image_.direct() ? 0 : step * x_image), prepared_y(direct_y ? 0 : step * y_image);
        for (int64_t i = 0; i < step && !image_.direct(); ++i) {
            image_.Clear(s_.in_channels, prepared_x.data() + i * x_image);
        }
        for (int64_t n = begin; n < end; n += step) {
            const int64_t images = std::min(step, end - n);
            PrepareImages(n, images, image_.direct() ? nullptr : prepared_x.data(),
                          direct_y ? nullptr : prepared_y.data());
            const T *const x = image_.direct() ? input_ + n * x_image : prepared_x.data();
            const T *const y = direct_y ? grad_output_ + n * y_image : prepared_y.data();
            const int64_t work = elements_ / (s_.groups * tiles_) * images * vectors * lanes_;
            ParallelFor(0, s_.groups * tiles_, kConvMinWork / std::max<int64_t>(work, 1) + 1,
                        [&](int64_t tile, int64_t tile_end) {
                            for (; tile < tile_end; ++tile) {
                                RunTile(tile / tiles_, tile % tiles_, images, x, x_image, y, out);
                            }
                        });
        }
    }

    // Null for an operand that is used as it is.
    void PrepareImages(int64_t n, int64_t images, T *x, T *y) const {
        if (x == nullptr && y == nullptr) {
            return;
        }
        const int64_t channels = s_.in_channels + s_.out_channels;
        const int64_t in_plane = s_.in_height * s_.in_width, out_plane = s_.out_height * s_.out_width;
        const int64_t grain = kConvMinWork / 4 / (image_.channel_size() + YPlane()) + 1;
        ParallelFor(0, images * channels, grain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                const int64_t image = i / channels, c = i % channels, o = c - s_.in_channels;
                if (o < 0 && x != nullptr) {
                    image_.Fill(input_ + ((n + image) * s_.in_channels + c) * in_plane, 1,
                                x + image * image_.Size(s_.in_channels) + c * image_.channel_size());
                } else if (o >= 0 && y != nullptr) {
                    PrepareGrad(grad_output_ + ((n + image) * s_.out_channels + o) * out_plane,
                                y + (image * s_.out_channels + o) * YPlane());
                }
            }
        });
    }

    void RunTile(int64_t group, int64_t tile, int64_t images, const T *x, int64_t x_image, const T *y, T *out) const {
        const int64_t first = group * group_out_ + TileBegin(group_out_, tile);
        const int64_t rows = group * group_out_ + TileBegin(group_out_, tile + 1) - first;
        const int64_t width = TileVectors(static_cast<int>(rows));
        DotTileArgs<T> args;
        args.y_row = YPlane();
        args.y_image = s_.out_channels * YPlane();
        args.x = x + group * group_in_ * image_.channel_size();
        args.x_image = x_image;
        args.images = images;
        args.tail = s_.out_width % lanes_;
        args.out_row = taps_;
        for (const Block &block : blocks_) {
            args.y = y + first * YPlane() + block.begin * lanes_;
            args.x_at = at_.data() + block.begin;
            args.full = block.full;
            args.partial = block.partial;
            for (int64_t tap = 0; tap < taps_; tap += width) {
                args.offsets = offsets_.data() + tap;
                args.out = out + first * taps_ + tap;
                FindDotTile<T>(rows, std::min(width, taps_ - tap))(args);
            }
        }
    }

    const kernels::Conv2dShape s_;
    const T *const grad_output_, *const input_;
    T *const grad_weight_;
    const int64_t lanes_;
    const int64_t group_in_, group_out_;  // channels
    const int64_t tiles_;                 // of the output channels of a group
    const int64_t taps_;
    const int64_t elements_;  // of the weight
    const ConvImage image_;
    const std::vector<int64_t> offsets_;
    std::vector<Block> blocks_;
    std::vector<int64_t> at_, y_at_;  // of each vector in the prepared image and in the output's gradient
    int64_t parts_;
};

void BackwardWeightFloat(const kernels::Conv2dShape &shape, const float *grad_output, const float *input,
                         float *grad_weight) {
    BackwardWeight<float>(shape, grad_output, input, grad_weight).Run();
}

void BackwardWeightDouble(const kernels::Conv2dShape &shape, const double *grad_output, const double *input,
                          double *grad_weight) {
    BackwardWeight<double>(shape, grad_output, input, grad_weight).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train::cpu {

HWY_EXPORT(BackwardWeightFloat);
HWY_EXPORT(BackwardWeightDouble);

void Conv2dBackwardWeight(const kernels::Conv2dShape &shape, const float *grad_output, const float *input,
                          float *grad_weight) {
    HWY_DYNAMIC_DISPATCH(BackwardWeightFloat)(shape, grad_output, input, grad_weight);
}

void Conv2dBackwardWeight(const kernels::Conv2dShape &shape, const double *grad_output, const double *input,
                          double *grad_weight) {
    HWY_DYNAMIC_DISPATCH(BackwardWeightDouble)(shape, grad_output, input, grad_weight);
}

}  // namespace infini_train::cpu
#endif
