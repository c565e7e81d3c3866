// How a convolution sees an image: padded, and with a column stride its columns sorted by their remainder, so that what
// neighbouring outputs read lies side by side.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "infini_train/src/kernels/conv.h"

namespace infini_train::cpu {

class ConvImage {
public:
    /// `lanes`: elements that may be read from any position on, even past the end of a row.
    ConvImage(const kernels::Conv2dShape &shape, int64_t lanes, bool reads_past_rows)
        : s_(shape),
          rows_(shape.in_height + 2 * shape.padding_height),
          row_((shape.in_width + 2 * shape.padding_width + shape.stride_width - 1) / shape.stride_width),
          slack_(lanes) {
        direct_ = shape.padding_height == 0 && shape.padding_width == 0 && shape.stride_width == 1 && !reads_past_rows;
    }

    /// Whether an image of the tensor serves as it is, without Prepare.
    bool direct() const { return direct_; }
    int64_t channel_size() const { return rows_ * row_ * s_.stride_width; }
    /// Elements of `channels` channels, with room to read past the end.
    int64_t Size(int64_t channels) const { return channels * channel_size() + slack_; }
    /// Where the input of output (row, column) begins within a channel, for a tap with offset 0.
    int64_t At(int64_t row, int64_t column) const { return row * s_.stride_height * row_ + column; }

    /// Where the input of each tap (channel, kernel row, kernel column) lies relative to At.
    std::vector<int64_t> TapOffsets(int64_t channels) const {
        std::vector<int64_t> offsets;
        offsets.reserve(static_cast<size_t>(channels * s_.kernel_height * s_.kernel_width));
        for (int64_t c = 0; c < channels; ++c) {
            for (int64_t i = 0; i < s_.kernel_height; ++i) {
                for (int64_t j = 0; j < s_.kernel_width; ++j) {
                    const int64_t column = j * s_.dilation_width;
                    const int64_t remainder = column % s_.stride_width;
                    offsets.push_back(c * channel_size() + remainder * rows_ * row_ + i * s_.dilation_height * row_ +
                                      column / s_.stride_width);
                }
            }
        }
        return offsets;
    }

    /// Fills `to` from `channels` channels of the tensor; with `last`, also the room behind them.
    template <typename T>
    void Prepare(const T *from, int64_t channels, bool last, T *to) const {
        for (int64_t c = 0; c < channels; ++c) {
            for (int64_t remainder = 0; remainder < s_.stride_width; ++remainder) {
                to = std::fill_n(to, s_.padding_height * row_, T(0));
                for (int64_t i = 0; i < s_.in_height; ++i) {
                    to = PrepareRow(from + i * s_.in_width, remainder, to);
                }
                to = std::fill_n(to, s_.padding_height * row_, T(0));
            }
            from += s_.in_height * s_.in_width;
        }
        if (last) {
            std::fill_n(to, slack_, T(0));
        }
    }

private:
    template <typename T>
    T *PrepareRow(const T *from, int64_t remainder, T *to) const {
        const int64_t stride = s_.stride_width;
        if (stride == 1) {
            to = std::fill_n(to, s_.padding_width, T(0));
            to = std::copy_n(from, s_.in_width, to);
            return std::fill_n(to, s_.padding_width, T(0));
        }
        for (int64_t j = 0; j < row_; ++j) {
            const int64_t column = j * stride + remainder - s_.padding_width;
            *to++ = column >= 0 && column < s_.in_width ? from[column] : T(0);
        }
        return to;
    }

    const kernels::Conv2dShape s_;
    const int64_t rows_, row_;
    const int64_t slack_;
    bool direct_;
};

}  // namespace infini_train::cpu
