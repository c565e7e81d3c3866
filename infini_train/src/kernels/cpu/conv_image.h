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

    /// Zeros for `channels` channels and the room behind them: the padding, which Fill doesn't touch.
    template <typename T>
    void Clear(int64_t channels, T *to) const {
        std::fill_n(to, Size(channels), T(0));
    }

    /// Copies `channels` channels of the tensor into `to`.
    template <typename T>
    void Fill(const T *from, int64_t channels, T *to) const {
        for (int64_t c = 0; c < channels; ++c) {
            T *row = to + c * channel_size() + s_.padding_height * row_;
            for (int64_t i = 0; i < s_.in_height; ++i, from += s_.in_width, row += row_) {
                if (s_.stride_width == 1) {
                    std::copy_n(from, s_.in_width, row + s_.padding_width);
                    continue;
                }
                for (int64_t j = 0; j < s_.in_width; ++j) {
                    row[ColumnAt(j)] = from[j];
                }
            }
        }
    }

    /// The other way round.
    template <typename T>
    void Extract(const T *from, int64_t channels, T *to) const {
        for (int64_t c = 0; c < channels; ++c) {
            const T *row = from + c * channel_size() + s_.padding_height * row_;
            for (int64_t i = 0; i < s_.in_height; ++i, to += s_.in_width, row += row_) {
                if (s_.stride_width == 1) {
                    std::copy_n(row + s_.padding_width, s_.in_width, to);
                    continue;
                }
                for (int64_t j = 0; j < s_.in_width; ++j) {
                    to[j] = row[ColumnAt(j)];
                }
            }
        }
    }

private:
    // Where column `j` of the tensor lies relative to its row.
    int64_t ColumnAt(int64_t j) const {
        const int64_t column = j + s_.padding_width;
        return column % s_.stride_width * rows_ * row_ + column / s_.stride_width;
    }

    const kernels::Conv2dShape s_;
    const int64_t rows_, row_;
    const int64_t slack_;
    bool direct_;
};

}  // namespace infini_train::cpu
