#include "infini_train/src/kernels/cpu/copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/convert.h"
#include "infini_train/src/kernels/cpu/loop_nest.h"

namespace infini_train::cpu {
namespace {

constexpr int64_t kCopyGrainBytes = 1 << 19;
constexpr int64_t kConvertGrain = 16384;
// The side of the square that is transposed at a time: its rows in and out fit the first-level cache.
constexpr int64_t kTile = 32;

void CopyBytes(char *output, const char *input, int64_t bytes) {
    ParallelFor(0, bytes, kCopyGrainBytes, [&](int64_t begin, int64_t end) {
        std::memcpy(output + begin, input + begin, static_cast<size_t>(end - begin));
    });
}

template <typename Bits>
void CopyRow(char *output, int64_t output_stride, const char *input, int64_t input_stride, int64_t n) {
    constexpr int64_t kSize = sizeof(Bits);
    if (output_stride == kSize && input_stride == kSize) {
        std::memcpy(output, input, static_cast<size_t>(n * kSize));
    } else if (output_stride == kSize) {
        for (int64_t i = 0; i < n; ++i) {
            std::memcpy(output + i * kSize, input + i * input_stride, kSize);
        }
    } else {
        for (int64_t i = 0; i < n; ++i) {
            std::memcpy(output + i * output_stride, input + i * input_stride, kSize);
        }
    }
}

template <typename Bits>
void CopyRows(const LoopNest &nest) {
    const int64_t to = nest.RowStride(0);
    const int64_t from = nest.RowStride(1);
    const int64_t grain = kCopyGrainBytes / 8 / static_cast<int64_t>(sizeof(Bits));
    ParallelForRows(nest, grain, [&](int64_t row, int64_t end_row, int64_t first, int64_t last) {
        for (RowCursor cursor(nest, row); row < end_row; ++row, cursor.Next()) {
            CopyRow<Bits>(cursor.data()[0] + first * to, to, cursor.data()[1] + first * from, from, last - first);
        }
    });
}

// Moves a dim in which the input is adjacent next to the row, in which the output is; false if there is none.
bool ArrangeTranspose(LoopNest *nest, int64_t size) {
    const int last = nest->ndim - 1;
    if (nest->RowStride(0) != size || nest->RowStride(1) == size || nest->RowStride(1) == 0 || nest->dims[last] < 4) {
        return false;
    }
    for (int d = last - 1; d >= 0; --d) {
        if (nest->strides[1][d] == size && nest->dims[d] >= 4) {
            std::swap(nest->dims[d], nest->dims[last - 1]);
            std::swap(nest->strides[0][d], nest->strides[0][last - 1]);
            std::swap(nest->strides[1][d], nest->strides[1][last - 1]);
            return true;
        }
    }
    return false;
}

// output[a][b] = input[b][a] for four by four elements; the compiler keeps them in registers.
template <typename Bits>
inline void TransposeFour(char *output, int64_t output_stride, const char *input, int64_t input_stride) {
    Bits block[4][4];
    for (int b = 0; b < 4; ++b) {
        std::memcpy(block[b], input + b * input_stride, sizeof(block[b]));
    }
    for (int a = 0; a < 4; ++a) {
        const Bits row[4] = {block[0][a], block[1][a], block[2][a], block[3][a]};
        std::memcpy(output + a * output_stride, row, sizeof(row));
    }
}

// output[a][b] = input[b][a] where b is adjacent in the output and a in the input.
template <typename Bits>
void TransposeTile(char *output, int64_t output_stride, const char *input, int64_t input_stride, int64_t rows,
                   int64_t columns) {
    constexpr int64_t kSize = sizeof(Bits);
    const int64_t whole_rows = rows / 4 * 4;
    const int64_t whole_columns = columns / 4 * 4;
    for (int64_t a = 0; a < whole_rows; a += 4) {
        for (int64_t b = 0; b < whole_columns; b += 4) {
            TransposeFour<Bits>(output + a * output_stride + b * kSize, output_stride,
                                input + b * input_stride + a * kSize, input_stride);
        }
    }
    for (int64_t a = 0; a < rows; ++a) {
        for (int64_t b = a < whole_rows ? whole_columns : 0; b < columns; ++b) {
            std::memcpy(output + a * output_stride + b * kSize, input + b * input_stride + a * kSize, kSize);
        }
    }
}

template <typename Bits>
void Transpose(LoopNest nest) {
    // What is left of the nest walks the planes.
    const int a = nest.ndim - 2;
    const int b = nest.ndim - 1;
    const int64_t rows = nest.dims[a];
    const int64_t columns = nest.dims[b];
    const int64_t output_stride = nest.strides[0][a];
    const int64_t input_stride = nest.strides[1][b];
    nest.ndim -= 1;
    nest.num_rows /= rows;
    const int64_t row_tiles = (rows + kTile - 1) / kTile;
    const int64_t grain = std::max<int64_t>(1, kConvertGrain / (kTile * columns));
    ParallelFor(0, nest.num_rows * row_tiles, grain, [&](int64_t begin, int64_t end) {
        for (int64_t unit = begin; unit < end; ++unit) {
            const RowCursor plane(nest, unit / row_tiles);
            const int64_t row = unit % row_tiles * kTile;
            char *const output = plane.data()[0] + row * output_stride;
            const char *const input = plane.data()[1] + row * static_cast<int64_t>(sizeof(Bits));
            for (int64_t column = 0; column < columns; column += kTile) {
                TransposeTile<Bits>(output + column * static_cast<int64_t>(sizeof(Bits)), output_stride,
                                    input + column * input_stride, input_stride, std::min(kTile, rows - row),
                                    std::min(kTile, columns - column));
            }
        }
    });
}

template <typename Bits>
void CopyBits(const TensorRef &output, const ConstTensorRef &input) {
    LoopNest nest(output, {&input, 1});
    if (ArrangeTranspose(&nest, sizeof(Bits))) {
        Transpose<Bits>(nest);
    } else {
        CopyRows<Bits>(nest);
    }
}

void ConvertRow(char *output, int64_t output_stride, DataType to, const char *input, int64_t input_stride,
                DataType from, int64_t n) {
    const Converter direct = GetConverter(from, to);
    if (direct != nullptr && output_stride == static_cast<int64_t>(SizeOf(to)) &&
        input_stride == static_cast<int64_t>(SizeOf(from))) {
        direct(input, output, n);
        return;
    }
    const DataType wide = WideType(from);
    ChunkBuffer buffer;
    for (int64_t i = 0; i < n; i += kChunk) {
        const int64_t count = std::min(kChunk, n - i);
        LoadConverted(input + i * input_stride, input_stride, from, buffer.bytes, wide, count);
        StoreConverted(buffer.bytes, wide, output + i * output_stride, output_stride, to, count);
    }
}

void ConvertCopy(const TensorRef &output, const ConstTensorRef &input) {
    const LoopNest nest(output, {&input, 1});
    const int64_t to = nest.RowStride(0);
    const int64_t from = nest.RowStride(1);
    ParallelForRows(nest, kConvertGrain, [&](int64_t row, int64_t end_row, int64_t first, int64_t last) {
        for (RowCursor cursor(nest, row); row < end_row; ++row, cursor.Next()) {
            ConvertRow(cursor.data()[0] + first * to, to, output.dtype, cursor.data()[1] + first * from, from,
                       input.dtype, last - first);
        }
    });
}

}  // namespace

void CopyKernel(TensorRef output, ConstTensorRef input) {
    if (output.num_elements == 0) {
        return;
    }
    if (!IsPlainCopy(input.dtype, output.dtype)) {
        return ConvertCopy(output, input);
    }
    if (output.is_contiguous && input.is_contiguous && input.num_elements == output.num_elements) {
        return CopyBytes(output.Data<char>(), input.Data<char>(),
                         output.num_elements * static_cast<int64_t>(SizeOf(output.dtype)));
    }
    switch (SizeOf(output.dtype)) {
        case 1:
            return CopyBits<uint8_t>(output, input);
        case 2:
            return CopyBits<uint16_t>(output, input);
        case 4:
            return CopyBits<uint32_t>(output, input);
        default:
            return CopyBits<uint64_t>(output, input);
    }
}

}  // namespace infini_train::cpu
