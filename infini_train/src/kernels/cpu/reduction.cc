#include "infini_train/src/kernels/reduction.h"

#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/reduction.cc"
#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/reduction_ops.h"
#include "infini_train/src/kernels/cpu/reduction_plan.h"
#include "infini_train/src/kernels/cpu/row_access.h"
#include "infini_train/src/kernels/registry.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

// Elements worth a thread.
inline constexpr int64_t kGrain = 32768;
// Long rows and columns are cut into parts of about this many elements, whatever the number of threads.
inline constexpr int64_t kPart = 65536;
// Rows whose sum is kept in the narrower type.
inline constexpr int64_t kBlockRows = 256;
// With fewer independent results than this, columns are cut into parts too.
inline constexpr int64_t kFewTiles = 8;

inline int64_t Parts(int64_t n, int64_t size) {
    return (n + size - 1) / size;
}

inline int64_t Grain(int64_t item) {
    return std::max<int64_t>(1, kGrain / std::max<int64_t>(item, 1));
}

template <class Op, typename C>
struct Pass {
    const ReducePass &shape;
    Reader<C> in;
    Writer<C> out;
    double divisor;

    using Partial = typename Op::Partial;
    using Combiner = typename Op::Combiner;

    void Run() const {
        if (shape.inner.size > 1) {
            Columns();
        } else {
            Rows();
        }
    }

    HWY_INLINE Partial Row(int64_t offset, int64_t n) const {
        C buffer[kChunk];
        const int64_t stride = shape.reduced.stride;
        if (n <= kChunk) {
            return ReduceBlock<Op>(in.Read(offset, stride, n, buffer), n);
        }
        Combiner total;
        for (int64_t i = 0; i < n; i += kChunk) {
            const int64_t count = std::min(kChunk, n - i);
            total.Add(ReduceBlock<Op>(in.Read(offset + i * stride, stride, count, buffer), count));
        }
        return total.Total();
    }

    void Rows() const {
        const int64_t n = shape.reduced.size;
        const int64_t parts = Parts(n, kPart);
        if (parts == 1) {
            ParallelFor(0, shape.outer_count, Grain(n), [&](int64_t begin, int64_t end) HWY_ATTR {
                Odometer at(shape.outer, begin);
                for (int64_t i = begin; i < end; ++i, at.Next()) {
                    const C value = Op::Finish(Row(at.in(), n), divisor);
                    out.Write(at.out(), 1, 1, &value);
                }
            });
            return;
        }
        std::vector<Partial> partials(static_cast<size_t>(shape.outer_count * parts));
        ParallelFor(0, shape.outer_count * parts, 1, [&](int64_t begin, int64_t end) HWY_ATTR {
            for (int64_t i = begin; i < end; ++i) {
                const int64_t first = i % parts * kPart;
                const int64_t offset = Odometer(shape.outer, i / parts).in() + first * shape.reduced.stride;
                partials[static_cast<size_t>(i)] = Row(offset, std::min(kPart, n - first));
            }
        });
        Odometer at(shape.outer, 0);
        for (int64_t i = 0; i < shape.outer_count; ++i, at.Next()) {
            Combiner total;
            for (int64_t part = 0; part < parts; ++part) {
                total.Add(partials[static_cast<size_t>(i * parts + part)]);
            }
            const C value = Op::Finish(total.Total(), divisor);
            out.Write(at.out(), 1, 1, &value);
        }
    }

    // The result of `rows` rows of `width` <= kChunk elements.
    void Tile(int64_t offset, int64_t rows, int64_t width, Partial *HWY_RESTRICT total) const {
        C block[kChunk];
        C buffers[4][kChunk];
        const int64_t step = shape.reduced.stride;
        const int64_t stride = shape.inner.stride;
        for (int64_t begin = 0; begin < rows; begin += kBlockRows) {
            const int64_t end = std::min(rows, begin + kBlockRows);
            const C *first = in.Read(offset + begin * step, stride, width, buffers[0]);
            std::copy(first, first + width, block);
            int64_t r = begin + 1;
            for (; r + 4 <= end; r += 4) {
                const C *four[4];
                for (int j = 0; j < 4; ++j) {
                    four[j] = in.Read(offset + (r + j) * step, stride, width, buffers[j]);
                }
                TakeInRows<Op>(four, width, block);
            }
            for (; r < end; ++r) {
                TakeInRow<Op>(in.Read(offset + r * step, stride, width, buffers[0]), width, block);
            }
            for (int64_t i = 0; i < width; ++i) {
                const auto value = static_cast<Partial>(block[i]);
                total[i] = begin == 0 ? value : Op::Scalar(total[i], value);
            }
        }
    }

    HWY_INLINE void Finish(int64_t offset, int64_t width, const Partial *HWY_RESTRICT total) const {
        C values[kChunk];
        for (int64_t i = 0; i < width; ++i) {
            values[i] = Op::Finish(total[i], divisor);
        }
        out.Write(offset, shape.inner.out_stride, width, values);
    }

    void Columns() const {
        const int64_t n = shape.reduced.size;
        const ReduceDim &inner = shape.inner;
        const int64_t tiles = Parts(inner.size, kChunk);
        const int64_t items = shape.outer_count * tiles;
        const int64_t widest = std::min(inner.size, kChunk);
        const int64_t part_rows = items >= kFewTiles ? n : std::max(kBlockRows / 4, kPart / widest);
        const int64_t parts = Parts(n, part_rows);
        const auto width_of = [&](int64_t tile) { return std::min(kChunk, inner.size - tile * kChunk); };
        std::vector<Partial> partials(parts == 1 ? 0 : static_cast<size_t>(items * parts * widest));
        ParallelFor(0, items * parts, Grain(std::min(n, part_rows) * widest), [&](int64_t begin, int64_t end) HWY_ATTR {
            Partial total[kChunk];
            for (int64_t i = begin; i < end; ++i) {
                const int64_t tile = i / parts % tiles;
                const int64_t first = i % parts * part_rows;
                const Odometer at(shape.outer, i / parts / tiles);
                const int64_t offset = at.in() + tile * kChunk * inner.stride + first * shape.reduced.stride;
                Partial *result = parts == 1 ? total : partials.data() + i * widest;
                Tile(offset, std::min(part_rows, n - first), width_of(tile), result);
                if (parts == 1) {
                    Finish(at.out() + tile * kChunk * inner.out_stride, width_of(tile), total);
                }
            }
        });
        if (parts == 1) {
            return;
        }
        for (int64_t item = 0; item < items; ++item) {
            const int64_t tile = item % tiles;
            Partial *total = partials.data() + item * parts * widest;
            for (int64_t part = 1; part < parts; ++part) {
                TakeInRow<Op>(total + part * widest, width_of(tile), total);
            }
            const Odometer at(shape.outer, item / tiles);
            Finish(at.out() + tile * kChunk * inner.out_stride, width_of(tile), total);
        }
    }
};

template <class Op, typename C>
void Reduce(const TensorRef &output, const ConstTensorRef &input, double divisor) {
    const Writer<C> out(output.data, output.dtype, Op::kOrdered);
    if (output.num_elements == 0) {
        return;
    }
    if (input.num_elements == 0) {
        const C nothing = Op::Finish(typename Op::Partial{0}, divisor);
        for (int64_t i = 0; i < output.num_elements; ++i) {
            out.Write(i, 1, 1, &nothing);
        }
        return;
    }
    std::vector<ReduceDim> dims = PlanReduction(output, input);
    Reader<C> in(input.data, input.dtype, Op::kOrdered);
    std::vector<C> from;
    for (;;) {
        const ReducePass pass = TakePass(&dims);
        if (dims.empty()) {
            Pass<Op, C>{pass, in, out, divisor}.Run();
            return;
        }
        std::vector<C> to(static_cast<size_t>(pass.outer_count * pass.inner.size));
        Pass<Op, C>{pass, in, Writer<C>(to.data(), kDataTypeOf<C>), 1.0}.Run();
        from.swap(to);
        in = Reader<C>(from.data(), kDataTypeOf<C>);
    }
}

template <typename C>
HWY_INLINE bool IsNan(C value) {
    if constexpr (std::is_floating_point_v<C>) {
        return value != value;
    } else {
        return false;
    }
}

/// The position of the first of n elements that no other beats.
template <typename C, bool kMax>
HWY_INLINE int64_t FirstExtreme(const Reader<C> &in, int64_t offset, int64_t stride, int64_t n) {
    C buffer[kChunk];
    C best{};
    int64_t position = 0;
    for (int64_t i = 0; i < n; i += kChunk) {
        const int64_t count = std::min(kChunk, n - i);
        const C *x = in.Read(offset + i * stride, stride, count, buffer);
        const C block = ReduceBlock<ExtremeOp<C, kMax>>(x, count);
        const bool better = kMax ? block > best : block < best;
        if (i > 0 && (IsNan(best) || (!better && !IsNan(block)))) {
            continue;
        }
        best = block;
        int64_t j = 0;
        while (x[j] != best && !(IsNan(best) && IsNan(x[j]))) {
            ++j;
        }
        position = i + j;
    }
    return position;
}

template <typename C, bool kMax>
void FindExtremes(const TensorRef &output, const ConstTensorRef &input, int dim) {
    const int64_t n = input.ndim == 0 ? 1 : input.dims[dim];
    const int64_t stride = input.ndim == 0 ? 1 : input.strides[dim];
    std::vector<ReduceDim> outer;
    for (int i = 0; i < input.ndim; ++i) {
        if (i != dim) {
            outer.push_back({input.dims[i], input.strides[i], output.strides[i], false});
        }
    }
    const Reader<C> in(input.data, input.dtype, /*ordered=*/true);
    auto *positions = output.Data<int64_t>();
    ParallelFor(0, output.num_elements, Grain(n), [&](int64_t begin, int64_t end) HWY_ATTR {
        Odometer at(outer, begin);
        for (int64_t i = begin; i < end; ++i, at.Next()) {
            positions[at.out()] = FirstExtreme<C, kMax>(in, at.in(), stride, n);
        }
    });
}

template <typename C>
void ReduceAs(ReduceKind kind, const TensorRef &output, const ConstTensorRef &input, double divisor) {
    switch (kind) {
        case ReduceKind::kSum:
            return Reduce<SumOp<C>, C>(output, input, divisor);
        case ReduceKind::kMax:
            return Reduce<ExtremeOp<C, true>, C>(output, input, divisor);
        case ReduceKind::kMin:
            return Reduce<ExtremeOp<C, false>, C>(output, input, divisor);
    }
}

void ReduceAny(ReduceKind kind, const TensorRef &output, const ConstTensorRef &input, double divisor) {
    if (input.dtype == DataType::kFLOAT64) {
        ReduceAs<double>(kind, output, input, divisor);
    } else if (IsFloatingPoint(input.dtype)) {
        ReduceAs<float>(kind, output, input, divisor);
    } else {
        ReduceAs<int64_t>(kind, output, input, divisor);
    }
}

template <typename C>
void FindAs(bool max, const TensorRef &output, const ConstTensorRef &input, int dim) {
    max ? FindExtremes<C, true>(output, input, dim) : FindExtremes<C, false>(output, input, dim);
}

void FindAny(bool max, const TensorRef &output, const ConstTensorRef &input, int dim) {
    if (input.dtype == DataType::kFLOAT64) {
        FindAs<double>(max, output, input, dim);
    } else if (IsFloatingPoint(input.dtype)) {
        FindAs<float>(max, output, input, dim);
    } else {
        FindAs<int64_t>(max, output, input, dim);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train {
namespace cpu {
namespace {

HWY_EXPORT(ReduceAny);
HWY_EXPORT(FindAny);

void ReduceSumKernel(TensorRef output, ConstTensorRef input, double divisor) {
    HWY_DYNAMIC_DISPATCH(ReduceAny)(ReduceKind::kSum, output, input, divisor);
}

void ReduceMaxKernel(TensorRef output, ConstTensorRef input) {
    HWY_DYNAMIC_DISPATCH(ReduceAny)(ReduceKind::kMax, output, input, 1.0);
}

void ReduceMinKernel(TensorRef output, ConstTensorRef input) {
    HWY_DYNAMIC_DISPATCH(ReduceAny)(ReduceKind::kMin, output, input, 1.0);
}

void ReduceArgmaxKernel(TensorRef output, ConstTensorRef input, int dim) {
    HWY_DYNAMIC_DISPATCH(FindAny)(true, output, input, dim);
}

void ReduceArgminKernel(TensorRef output, ConstTensorRef input, int dim) {
    HWY_DYNAMIC_DISPATCH(FindAny)(false, output, input, dim);
}

}  // namespace
}  // namespace cpu

namespace kernels {

void RegisterReductionCpu() {
    RegisterKernel<ReduceSum>(DeviceType::kCPU, &cpu::ReduceSumKernel);
    RegisterKernel<ReduceMax>(DeviceType::kCPU, &cpu::ReduceMaxKernel);
    RegisterKernel<ReduceMin>(DeviceType::kCPU, &cpu::ReduceMinKernel);
    RegisterKernel<ReduceArgmax>(DeviceType::kCPU, &cpu::ReduceArgmaxKernel);
    RegisterKernel<ReduceArgmin>(DeviceType::kCPU, &cpu::ReduceArgminKernel);
}

}  // namespace kernels
}  // namespace infini_train
#endif
