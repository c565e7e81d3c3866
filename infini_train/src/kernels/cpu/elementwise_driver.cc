#include "infini_train/src/kernels/cpu/elementwise_driver.h"

#include <algorithm>
#include <cstring>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/convert.h"
#include "infini_train/src/kernels/cpu/loop_nest.h"

namespace infini_train::cpu {
namespace {

constexpr int kMaxInputs = ElementwiseOp::kMaxInputs;
// Rows shorter than this are collected into chunks; the latter where only an operand that repeats has to be copied,
// once.
constexpr int64_t kShortRow = 8;
constexpr int64_t kFreeShortRow = 64;

// The bit in the index of `loops` of an operand as a scalar, or 0 if no loop takes it as one.
int ScalarBit(const ElementwiseOp &op, int input) {
    if (op.num_inputs == 1 || input < op.num_inputs - 2) {
        return 0;
    }
    return input == op.num_inputs - 2 ? 1 : 2;
}

// All operands are adjacent elements of the right types, or one element: no nest, no buffers.
bool RunFlat(const ElementwiseOp &op, const TensorRef &output, std::span<const ConstTensorRef> inputs,
             const void *params) {
    if (!output.is_contiguous || output.dtype != op.out) {
        return false;
    }
    const int64_t n = output.num_elements;
    int scalars = 0;
    int64_t sizes[kMaxInputs];
    for (int k = 0; k < op.num_inputs; ++k) {
        if (!inputs[k].is_contiguous || inputs[k].dtype != op.in[k]) {
            return false;
        }
        const bool is_scalar = inputs[k].num_elements != n;
        const int bit = ScalarBit(op, k);
        if (is_scalar && (inputs[k].num_elements != 1 || bit == 0)) {
            return false;
        }
        scalars |= is_scalar ? bit : 0;
        sizes[k] = is_scalar ? 0 : static_cast<int64_t>(SizeOf(inputs[k].dtype));
    }
    const ElementwiseLoop loop = op.loops[scalars];
    if (loop == nullptr) {
        return false;
    }
    const auto out_size = static_cast<int64_t>(SizeOf(op.out));
    ParallelFor(0, n, op.grain, [&](int64_t begin, int64_t end) {
        const void *in[kMaxInputs];
        for (int k = 0; k < op.num_inputs; ++k) {
            in[k] = inputs[k].Data<char>() + begin * sizes[k];
        }
        loop(in, output.Data<char>() + begin * out_size, end - begin, params);
    });
    return true;
}

// Runs the rows of a nest, element types converted and what isn't adjacent gathered through buffers.
class NestRunner {
public:
    NestRunner(const ElementwiseOp &op, const TensorRef &output, std::span<const ConstTensorRef> inputs,
               const void *params)
        : op_(op), params_(params), nest_(output, inputs) {
        dtype_[0] = output.dtype;
        compute_[0] = op.out;
        for (int k = 0; k < op.num_inputs; ++k) {
            dtype_[k + 1] = inputs[k].dtype;
            compute_[k + 1] = op.in[k];
        }
        for (int k = 0; k <= op.num_inputs; ++k) {
            size_[k] = static_cast<int64_t>(SizeOf(compute_[k]));
            stride_[k] = nest_.RowStride(k);
            direct_[k] = dtype_[k] == compute_[k] && stride_[k] == size_[k];
            buffered_ = buffered_ || (!direct_[k] && stride_[k] != 0);
        }
        ChooseLoop();
        ChooseGathering();
    }

    void Run() {
        ParallelForRows(nest_, Grain(), [&](int64_t row, int64_t end_row, int64_t first, int64_t last) {
            if (gathers_rows_) {
                RunShortRows(row, end_row);
                return;
            }
            for (RowCursor cursor(nest_, row); row < end_row; ++row, cursor.Next()) {
                RunRow(cursor.data(), first, last);
            }
        });
    }

private:
    void ChooseLoop() {
        int scalars = 0;
        for (int k = 0; k < op_.num_inputs; ++k) {
            scalars |= stride_[k + 1] == 0 ? ScalarBit(op_, k) : 0;
        }
        // An operand that no loop takes as a scalar is repeated in a buffer.
        while (op_.loops[scalars] == nullptr) {
            scalars &= scalars - 1;
        }
        loop_ = op_.loops[scalars];
        for (int k = 0; k < op_.num_inputs; ++k) {
            is_scalar_[k + 1] = (scalars & ScalarBit(op_, k)) != 0 && stride_[k + 1] == 0;
            buffered_ = buffered_ || (stride_[k + 1] == 0 && !is_scalar_[k + 1]);
        }
    }

    // Short rows are put together if the output then is one piece, and somewhat longer ones if that is free.
    void ChooseGathering() {
        bool is_free = true;
        for (int k = 1; k <= op_.num_inputs; ++k) {
            short_row_[k] = IsAdjacent(k)      ? ShortRow::kAdjacent
                            : RepeatsOneRow(k) ? ShortRow::kRepeat
                                               : ShortRow::kGather;
            is_free = is_free && short_row_[k] != ShortRow::kGather;
        }
        gathers_rows_ =
            nest_.RowLength() < (is_free ? kFreeShortRow : kShortRow) && nest_.num_rows > 1 && IsAdjacent(0);
        gather_loop_ = op_.loops[0];
    }

    // Whole chunks of short rows, so that how elements are grouped doesn't depend on the threads.
    int64_t Grain() const {
        const int64_t length = nest_.RowLength();
        return gathers_rows_ ? kChunk / length * length * (op_.grain / kChunk) : op_.grain;
    }

    void RunRow(char *const *data, int64_t first, int64_t last) {
        alignas(8) char scalars[kMaxInputs + 1][8];
        const int64_t step = buffered_ ? kChunk : last - first;
        const char *fixed[kMaxInputs + 1] = {};
        for (int k = 1; k <= op_.num_inputs; ++k) {
            if (is_scalar_[k]) {
                fixed[k] = data[k];
                if (dtype_[k] != compute_[k]) {
                    LoadConverted(data[k], static_cast<int64_t>(SizeOf(dtype_[k])), dtype_[k], scalars[k], compute_[k],
                                  1);
                    fixed[k] = scalars[k];
                }
            }
        }
        for (int64_t i = first; i < last; i += step) {
            RunPiece(data, fixed, i, std::min(step, last - i));
        }
    }

    void RunPiece(char *const *data, const char *const *fixed, int64_t first, int64_t n) {
        ChunkBuffer buffers[kMaxInputs + 1];
        const void *in[kMaxInputs];
        for (int k = 1; k <= op_.num_inputs; ++k) {
            const char *const from = data[k] + first * stride_[k];
            if (is_scalar_[k]) {
                in[k - 1] = fixed[k];
            } else if (direct_[k]) {
                in[k - 1] = from;
            } else {
                LoadConverted(from, stride_[k], dtype_[k], buffers[k].bytes, compute_[k], n);
                in[k - 1] = buffers[k].bytes;
            }
        }
        char *const to = data[0] + first * stride_[0];
        if (direct_[0]) {
            loop_(in, to, n, params_);
        } else {
            loop_(in, buffers[0].bytes, n, params_);
            StoreConverted(buffers[0].bytes, compute_[0], to, stride_[0], dtype_[0], n);
        }
    }

    void RunShortRows(int64_t row, int64_t end_row) {
        ChunkBuffer buffers[kMaxInputs + 1];
        const int64_t length = nest_.RowLength();
        const int64_t rows_in_chunk = kChunk / length;
        RowCursor cursor(nest_, row);
        for (bool first = true; row < end_row; first = false) {
            const int64_t rows = std::min(end_row - row, rows_in_chunk);
            const void *in[kMaxInputs] = {};
            bool gathers[kMaxInputs + 1] = {};
            bool any = false;
            for (int k = 1; k <= op_.num_inputs; ++k) {
                gathers[k] = short_row_[k] == ShortRow::kGather || (short_row_[k] == ShortRow::kRepeat && first);
                any = any || gathers[k];
                in[k - 1] =
                    short_row_[k] == ShortRow::kAdjacent ? nest_.data[k] + row * length * size_[k] : buffers[k].bytes;
            }
            for (int64_t i = 0; any && i < rows; ++i, cursor.Next()) {
                for (int k = 1; k <= op_.num_inputs; ++k) {
                    if (gathers[k]) {
                        GatherShortRow(k, cursor.data()[k], buffers[k].bytes + i * length * size_[k], length);
                    }
                }
            }
            gather_loop_(in, nest_.data[0] + row * length * size_[0], rows * length, params_);
            row += rows;
        }
    }

    void GatherShortRow(int operand, const char *from, char *to, int64_t length) const {
        if (dtype_[operand] != compute_[operand]) {
            LoadConverted(from, stride_[operand], dtype_[operand], to, compute_[operand], length);
        } else if (size_[operand] == 4) {
            GatherElements<uint32_t>(from, stride_[operand], to, length);
        } else if (size_[operand] == 8) {
            GatherElements<uint64_t>(from, stride_[operand], to, length);
        } else {
            GatherElements<uint8_t>(from, stride_[operand], to, length);
        }
    }

    template <typename Bits>
    static void GatherElements(const char *from, int64_t stride, char *to, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
            std::memcpy(to + i * static_cast<int64_t>(sizeof(Bits)), from + i * stride, sizeof(Bits));
        }
    }

    // Whether all rows of an operand are one run of elements that the loop takes as they are.
    bool IsAdjacent(int operand) const {
        bool adjacent = direct_[operand];
        for (int d = nest_.ndim - 1; d > 0; --d) {
            adjacent = adjacent && nest_.strides[operand][d - 1] == nest_.strides[operand][d] * nest_.dims[d];
        }
        return adjacent;
    }

    bool RepeatsOneRow(int operand) const {
        return std::all_of(nest_.strides[operand], nest_.strides[operand] + nest_.ndim - 1,
                           [](int64_t stride) { return stride == 0; });
    }

    // What becomes of an operand's rows when short ones are put together.
    enum class ShortRow : int8_t { kAdjacent, kRepeat, kGather };

    const ElementwiseOp &op_;
    const void *const params_;
    const LoopNest nest_;
    ElementwiseLoop loop_ = nullptr;
    ElementwiseLoop gather_loop_ = nullptr;
    DataType dtype_[kMaxInputs + 1];    // 0 is the output
    DataType compute_[kMaxInputs + 1];  // what the loop reads and writes
    int64_t size_[kMaxInputs + 1];
    int64_t stride_[kMaxInputs + 1];
    bool direct_[kMaxInputs + 1];
    bool is_scalar_[kMaxInputs + 1] = {};
    ShortRow short_row_[kMaxInputs + 1] = {};
    bool buffered_ = false;
    bool gathers_rows_ = false;
};

}  // namespace

void RunElementwise(const ElementwiseOp &op, const TensorRef &output, std::span<const ConstTensorRef> inputs,
                    const void *params) {
    if (output.num_elements == 0 || RunFlat(op, output, inputs, params)) {
        return;
    }
    NestRunner(op, output, inputs, params).Run();
}

DataType ComputeType(DataType dtype) {
    return dtype == DataType::kBOOL ? DataType::kINT64 : WideType(dtype);
}

ScalarOperand::ScalarOperand(Scalar value, DataType compute) : dtype_(compute) {
    const auto store = [&](auto number) { std::memcpy(bytes_, &number, sizeof(number)); };
    if (compute == DataType::kFLOAT32) {
        store(value.To<float>());
    } else if (compute == DataType::kFLOAT64) {
        store(value.To<double>());
    } else if (compute == DataType::kINT32) {
        store(value.To<int32_t>());
    } else if (compute == DataType::kUINT64) {
        store(value.To<uint64_t>());
    } else {
        store(value.To<int64_t>());
    }
}

}  // namespace infini_train::cpu
