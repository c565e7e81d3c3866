#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/pooling.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/include/core/parallel.h"
#include "infini_train/include/dtype_dispatch.h"

#include "infini_train/src/kernels/cpu/scratch.h"
#include "infini_train/src/kernels/pooling.h"
#include "infini_train/src/kernels/registry.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using kernels::Pool2dShape;

constexpr int64_t kMinWork = 16384;  // elements that are worth a thread

template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Along one axis, the windows whose tap `tap` lies inside of the input: [begin, end), the first of which sees `from`.
struct Windows {
    int64_t begin, end, from;

    Windows(int64_t tap, int64_t padding, int64_t stride, int64_t in, int64_t out) {
        const int64_t first = tap - padding;  // what window 0 sees
        begin = first >= 0 ? 0 : (stride - 1 - first) / stride;
        end = first >= in ? 0 : std::min(out, (in - 1 - first) / stride + 1);
        from = first + begin * stride;
    }
};

// A value wins if it is larger or NaN, and then takes its place.
template <int kStride, typename T>
void MaxRow(const T *HWY_RESTRICT in, int64_t stride, int32_t place, int64_t n, T *HWY_RESTRICT best,
            int32_t *HWY_RESTRICT places) {
    const int64_t step = kStride > 0 ? kStride : stride;
    for (int64_t i = 0; i < n; ++i) {
        const T value = in[i * step];
        const bool wins = (value > best[i]) | (value != value);
        best[i] = wins ? value : best[i];
        places[i] = wins ? place + static_cast<int32_t>(i * step) : places[i];
    }
}

template <typename T>
void MaxRowOf(const T *in, int64_t stride, int32_t place, int64_t n, T *best, int32_t *places) {
    if (stride == 1) {
        MaxRow<1>(in, stride, place, n, best, places);
    } else if (stride == 2) {
        MaxRow<2>(in, stride, place, n, best, places);
    } else {
        MaxRow<0>(in, stride, place, n, best, places);
    }
}

/// Where row `i` of windows begins: -inf, at the first place of each window, or -1 if it sees nothing.
template <typename C>
void BeginRow(const Pool2dShape &s, int64_t row, C *best, int32_t *places) {
    for (int64_t j = 0; j < s.out_width; ++j) {
        int64_t column = j * s.stride_width - s.padding_width;
        column += column < 0 ? (s.dilation_width - 1 - column) / s.dilation_width * s.dilation_width : 0;
        best[j] = -std::numeric_limits<C>::infinity();
        places[j] = row >= 0 && column < s.in_width ? static_cast<int32_t>(row * s.in_width + column) : -1;
    }
}

/// One plane of C, tap by tap over all windows of a row.
template <typename C>
void MaxPlane(const Pool2dShape &s, const std::vector<Windows> &columns, const C *in, C *out, int32_t *places) {
    for (int64_t i = 0; i < s.out_height; ++i, out += s.out_width, places += s.out_width) {
        bool begun = false;
        for (int64_t a = 0; a < s.kernel_height; ++a) {
            const int64_t row = i * s.stride_height - s.padding_height + a * s.dilation_height;
            if (row < 0 || row >= s.in_height) {
                continue;
            }
            if (!begun) {
                BeginRow(s, row, out, places);
                begun = true;
            }
            for (const Windows &w : columns) {
                if (w.begin < w.end) {
                    const auto place = static_cast<int32_t>(row * s.in_width + w.from);
                    MaxRowOf(in + place, s.stride_width, place, w.end - w.begin, out + w.begin, places + w.begin);
                }
            }
        }
        if (!begun) {
            BeginRow(s, -1, out, places);
        }
    }
}

/// One row of (2, 2) windows that lie side by side, the usual pooling, in vectors of D; gives how many windows it did.
template <class D, typename C>
int64_t PairRow(D d, const C *HWY_RESTRICT in, int64_t in_width, int32_t place, int64_t n, C *HWY_RESTRICT out,
                int32_t *HWY_RESTRICT places) {
    const hn::RebindToSigned<D> di;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    if (n < lanes) {
        return 0;
    }
    const auto steps = hn::Add(hn::Iota(di, 0), hn::Iota(di, 0));
    for (int64_t j = 0; j < n; j += lanes) {
        const int64_t at = std::min(j, n - lanes);  // the last vector overlaps the one before
        hn::Vec<D> values[4];
        hn::LoadInterleaved2(d, in + 2 * at, values[0], values[1]);
        hn::LoadInterleaved2(d, in + in_width + 2 * at, values[2], values[3]);
        const int32_t first = place + static_cast<int32_t>(2 * at), below = first + static_cast<int32_t>(in_width);
        const int32_t firsts[4] = {first, first + 1, below, below + 1};
        auto best = values[0];
        auto where = hn::Set(di, firsts[0]);
        for (int k = 1; k < 4; ++k) {
            const auto wins = hn::Or(hn::Gt(values[k], best), hn::IsNaN(values[k]));
            best = hn::IfThenElse(wins, values[k], best);
            where = hn::IfThenElse(hn::RebindMask(di, wins), hn::Set(di, firsts[k]), where);
        }
        hn::StoreU(best, d, out + at);
        hn::StoreU(hn::Add(where, steps), di, places + at);
    }
    return n;
}

/// All windows of a plane for (2, 2) windows side by side without padding.
inline void PairPlane(const Pool2dShape &s, const float *in, float *out, int32_t *places) {
    const hn::ScalableTag<float> d;
    const hn::CappedTag<float, 4> narrow;
    for (int64_t i = 0; i < s.out_height; ++i) {
        const int64_t place = 2 * i * s.in_width, at = i * s.out_width;
        const auto run = [&](auto tag) {
            return PairRow(tag, in + place, s.in_width, static_cast<int32_t>(place), s.out_width, out + at,
                           places + at);
        };
        if (run(d) == 0 && run(narrow) == 0) {
            for (int64_t j = 0; j < s.out_width; ++j) {
                const int64_t corner = place + 2 * j;
                out[at + j] = in[corner];
                places[at + j] = static_cast<int32_t>(corner);
                for (const int64_t next : {corner + 1, corner + s.in_width, corner + s.in_width + 1}) {
                    MaxRow<1>(in + next, 1, static_cast<int32_t>(next), 1, out + at + j, places + at + j);
                }
            }
        }
    }
}

bool IsPairs(const Pool2dShape &s) {
    return s.kernel_height == 2 && s.kernel_width == 2 && s.stride_height == 2 && s.stride_width == 2 &&
           s.padding_height == 0 && s.padding_width == 0 && s.dilation_height == 1 && s.dilation_width == 1 &&
           2 * s.out_height <= s.in_height && 2 * s.out_width <= s.in_width;
}

std::vector<Windows> ColumnWindows(const Pool2dShape &s) {
    std::vector<Windows> columns;
    for (int64_t b = 0; b < s.kernel_width; ++b) {
        columns.emplace_back(b * s.dilation_width, s.padding_width, s.stride_width, s.in_width, s.out_width);
    }
    return columns;
}

template <typename From, typename To>
void ConvertPlane(const From *from, int64_t n, To *to) {
    for (int64_t i = 0; i < n; ++i) {
        to[i] = static_cast<To>(static_cast<float>(from[i]));
    }
}

/// Calls `body(plane, in, out)` for all planes with memory of the computing type: that of the tensors or, for 16-bit
/// types, converted copies (of `in` before, of `out` after).
template <typename T, typename Body>
void ForPlanes(int64_t planes, const T *in, int64_t in_size, T *out, int64_t out_size, int64_t work, Body body) {
    ParallelFor(0, planes, kMinWork / std::max<int64_t>(work, 1) + 1, [&](int64_t begin, int64_t end) {
        if constexpr (std::is_same_v<T, Compute<T>>) {
            for (int64_t p = begin; p < end; ++p) {
                body(p, in + p * in_size, out + p * out_size);
            }
        } else {
            const Scratch<float> x(in_size), y(out_size);
            for (int64_t p = begin; p < end; ++p) {
                ConvertPlane(in + p * in_size, in_size, x.data());
                body(p, static_cast<const float *>(x.data()), y.data());
                ConvertPlane(y.data(), out_size, out + p * out_size);
            }
        }
    });
}

void MaxPool(TensorRef output, TensorRef indices, ConstTensorRef input, const Pool2dShape &s) {
    const int64_t in_size = s.in_height * s.in_width, out_size = s.out_height * s.out_width;
    const std::vector<Windows> columns = ColumnWindows(s);
    int32_t *const places = indices.Data<int32_t>();
    [[maybe_unused]] const bool pairs = IsPairs(s);
    DispatchFloatingDtype(output.dtype, kernels::MaxPool2d::kName, [&]<typename T>() {
        ForPlanes(s.planes, input.Data<T>(), in_size, output.Data<T>(), out_size,
                  out_size * s.kernel_height * s.kernel_width, [&](int64_t p, const Compute<T> *in, Compute<T> *out) {
                      if constexpr (std::is_same_v<Compute<T>, float>) {
                          if (pairs) {
                              return PairPlane(s, in, out, places + p * out_size);
                          }
                      }
                      MaxPlane(s, columns, in, out, places + p * out_size);
                  });
    });
}

void MaxPoolBackward(TensorRef grad_input, ConstTensorRef grad_output, ConstTensorRef indices, int64_t planes) {
    const int64_t in_size = grad_input.num_elements / planes, out_size = grad_output.num_elements / planes;
    DispatchFloatingDtype(grad_input.dtype, kernels::MaxPool2dBackward::kName, [&]<typename T>() {
        ForPlanes(planes, grad_output.Data<T>(), out_size, grad_input.Data<T>(), in_size, in_size,
                  [&](int64_t p, const Compute<T> *from, Compute<T> *to) {
                      const int32_t *const places = indices.Data<int32_t>() + p * out_size;
                      std::fill_n(to, in_size, Compute<T>(0));
                      for (int64_t i = 0; i < out_size; ++i) {
                          if (places[i] >= 0) {
                              to[places[i]] += from[i];
                          }
                      }
                  });
    });
}

void MaxPoolGather(TensorRef output, ConstTensorRef input, ConstTensorRef indices, int64_t planes) {
    const int64_t in_size = input.num_elements / planes, out_size = output.num_elements / planes;
    DispatchFloatingDtype(output.dtype, kernels::MaxPool2dGather::kName, [&]<typename T>() {
        ParallelFor(0, planes, kMinWork / out_size + 1, [&](int64_t begin, int64_t end) {
            for (int64_t p = begin; p < end; ++p) {
                const T *const from = input.Data<T>() + p * in_size;
                for (int64_t i = p * out_size; i < (p + 1) * out_size; ++i) {
                    const int32_t place = indices.Data<int32_t>()[i];
                    output.Data<T>()[i] = place >= 0 ? from[place] : T();
                }
            }
        });
    });
}

/// The number by which the sum of window (i, j) is divided.
int64_t Divisor(const Pool2dShape &s, int64_t i, int64_t j) {
    const int64_t top = i * s.stride_height - s.padding_height, left = j * s.stride_width - s.padding_width;
    const int64_t bottom = std::min(top + s.kernel_height, s.in_height + s.padding_height);
    const int64_t right = std::min(left + s.kernel_width, s.in_width + s.padding_width);
    if (s.count_include_pad) {
        return (bottom - top) * (right - left);
    }
    return (std::min(bottom, s.in_height) - std::max<int64_t>(top, 0)) *
           (std::min(right, s.in_width) - std::max<int64_t>(left, 0));
}

template <typename C>
std::vector<C> Divisors(const Pool2dShape &s) {
    std::vector<C> divisors;
    divisors.reserve(static_cast<size_t>(s.out_height * s.out_width));
    for (int64_t i = 0; i < s.out_height; ++i) {
        for (int64_t j = 0; j < s.out_width; ++j) {
            divisors.push_back(static_cast<C>(Divisor(s, i, j)));
        }
    }
    return divisors;
}

template <int kStride, typename T>
void GatherRow(const T *HWY_RESTRICT in, int64_t stride, int64_t n, T *HWY_RESTRICT out) {
    for (int64_t i = 0; i < n; ++i) {
        out[i] += in[i * (kStride > 0 ? kStride : stride)];
    }
}
template <int kStride, typename T>
void ScatterRow(const T *HWY_RESTRICT in, int64_t stride, int64_t n, T *HWY_RESTRICT out) {
    for (int64_t i = 0; i < n; ++i) {
        out[i * (kStride > 0 ? kStride : stride)] += in[i];
    }
}

/// Calls `row(window row, input row)` for each window row and each of its rows inside of the input.
template <typename Row>
void ForWindowRows(const Pool2dShape &s, Row row) {
    for (int64_t i = 0; i < s.out_height; ++i) {
        for (int64_t a = 0; a < s.kernel_height; ++a) {
            const int64_t in_row = i * s.stride_height - s.padding_height + a;
            if (in_row >= 0 && in_row < s.in_height) {
                row(i, in_row);
            }
        }
    }
}

template <typename C>
void AvgPlane(const Pool2dShape &s, const std::vector<Windows> &columns, const C *divisors, const C *in, C *out) {
    const int64_t out_size = s.out_height * s.out_width;
    std::fill_n(out, out_size, C(0));
    ForWindowRows(s, [&](int64_t i, int64_t in_row) {
        for (const Windows &w : columns) {
            const C *const from = in + in_row * s.in_width + w.from;
            C *const to = out + i * s.out_width + w.begin;
            s.stride_width == 1   ? GatherRow<1>(from, 1, w.end - w.begin, to)
            : s.stride_width == 2 ? GatherRow<2>(from, 2, w.end - w.begin, to)
                                  : GatherRow<0>(from, s.stride_width, w.end - w.begin, to);
        }
    });
    for (int64_t i = 0; i < out_size; ++i) {
        out[i] /= divisors[i];
    }
}

template <typename C>
void AvgPlaneBackward(const Pool2dShape &s, const std::vector<Windows> &columns, const C *divisors, const C *grad_out,
                      C *shares, C *grad_in) {
    for (int64_t i = 0; i < s.out_height * s.out_width; ++i) {
        shares[i] = grad_out[i] / divisors[i];
    }
    std::fill_n(grad_in, s.in_height * s.in_width, C(0));
    ForWindowRows(s, [&](int64_t i, int64_t in_row) {
        for (const Windows &w : columns) {
            const C *const from = shares + i * s.out_width + w.begin;
            C *const to = grad_in + in_row * s.in_width + w.from;
            s.stride_width == 1   ? ScatterRow<1>(from, 1, w.end - w.begin, to)
            : s.stride_width == 2 ? ScatterRow<2>(from, 2, w.end - w.begin, to)
                                  : ScatterRow<0>(from, s.stride_width, w.end - w.begin, to);
        }
    });
}

void AvgPool(TensorRef output, ConstTensorRef input, const Pool2dShape &s) {
    const int64_t in_size = s.in_height * s.in_width, out_size = s.out_height * s.out_width;
    const std::vector<Windows> columns = ColumnWindows(s);
    DispatchFloatingDtype(output.dtype, kernels::AvgPool2d::kName, [&]<typename T>() {
        using C = Compute<T>;
        const std::vector<C> divisors = Divisors<C>(s);
        ForPlanes(s.planes, input.Data<T>(), in_size, output.Data<T>(), out_size,
                  out_size * s.kernel_height * s.kernel_width,
                  [&](int64_t, const C *in, C *out) { AvgPlane(s, columns, divisors.data(), in, out); });
    });
}

void AvgPoolBackward(TensorRef grad_input, ConstTensorRef grad_output, const Pool2dShape &s) {
    const int64_t in_size = s.in_height * s.in_width, out_size = s.out_height * s.out_width;
    const std::vector<Windows> columns = ColumnWindows(s);
    DispatchFloatingDtype(grad_input.dtype, kernels::AvgPool2dBackward::kName, [&]<typename T>() {
        using C = Compute<T>;
        const std::vector<C> divisors = Divisors<C>(s);
        ForPlanes(s.planes, grad_output.Data<T>(), out_size, grad_input.Data<T>(), in_size,
                  out_size * s.kernel_height * s.kernel_width, [&](int64_t, const C *from, C *to) {
                      const Scratch<C> shares(out_size);
                      AvgPlaneBackward(s, columns, divisors.data(), from, shares.data(), to);
                  });
    });
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train {
namespace cpu {
namespace {

HWY_EXPORT(MaxPool);
HWY_EXPORT(MaxPoolBackward);
HWY_EXPORT(MaxPoolGather);
HWY_EXPORT(AvgPool);
HWY_EXPORT(AvgPoolBackward);

void MaxPoolKernel(TensorRef output, TensorRef indices, ConstTensorRef input, const kernels::Pool2dShape &shape) {
    HWY_DYNAMIC_DISPATCH(MaxPool)(output, indices, input, shape);
}
void MaxPoolBackwardKernel(TensorRef grad_input, ConstTensorRef grad_output, ConstTensorRef indices, int64_t planes) {
    HWY_DYNAMIC_DISPATCH(MaxPoolBackward)(grad_input, grad_output, indices, planes);
}
void MaxPoolGatherKernel(TensorRef output, ConstTensorRef input, ConstTensorRef indices, int64_t planes) {
    HWY_DYNAMIC_DISPATCH(MaxPoolGather)(output, input, indices, planes);
}
void AvgPoolKernel(TensorRef output, ConstTensorRef input, const kernels::Pool2dShape &shape) {
    HWY_DYNAMIC_DISPATCH(AvgPool)(output, input, shape);
}
void AvgPoolBackwardKernel(TensorRef grad_input, ConstTensorRef grad_output, const kernels::Pool2dShape &shape) {
    HWY_DYNAMIC_DISPATCH(AvgPoolBackward)(grad_input, grad_output, shape);
}

}  // namespace
}  // namespace cpu

namespace kernels {

void RegisterPoolingCpu() {
    RegisterKernel<MaxPool2d>(DeviceType::kCPU, &cpu::MaxPoolKernel);
    RegisterKernel<MaxPool2dBackward>(DeviceType::kCPU, &cpu::MaxPoolBackwardKernel);
    RegisterKernel<MaxPool2dGather>(DeviceType::kCPU, &cpu::MaxPoolGatherKernel);
    RegisterKernel<AvgPool2d>(DeviceType::kCPU, &cpu::AvgPoolKernel);
    RegisterKernel<AvgPool2dBackward>(DeviceType::kCPU, &cpu::AvgPoolBackwardKernel);
}

}  // namespace kernels
}  // namespace infini_train
#endif
