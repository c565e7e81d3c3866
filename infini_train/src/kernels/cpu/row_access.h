// How kernels that compute in float, double or int64 read and write elements of any data type and stride: a few hundred
// at a time, through a buffer where they aren't what the kernel wants. Compiled once for each Highway target, hence the
// toggled include guard.

#if defined(INFINI_TRAIN_SRC_KERNELS_CPU_ROW_ACCESS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INFINI_TRAIN_SRC_KERNELS_CPU_ROW_ACCESS_H_
#undef INFINI_TRAIN_SRC_KERNELS_CPU_ROW_ACCESS_H_
#else
#define INFINI_TRAIN_SRC_KERNELS_CPU_ROW_ACCESS_H_
#endif

#include <cstdint>
#include <type_traits>

#include <hwy/highway.h>

#include "infini_train/include/datatype.h"
#include "infini_train/include/dtype_dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Elements that are converted at a time.
inline constexpr int64_t kChunk = 1024;

/// Unsigned 64-bit integers are stored in an int64_t so that their order is that of signed ones.
inline constexpr uint64_t kSignBit = uint64_t{1} << 63;

template <typename S, typename C, bool kOrdered>
HWY_INLINE C Widen(S value) {
    if constexpr (std::is_same_v<S, uint64_t> && kOrdered) {
        return static_cast<C>(value ^ kSignBit);
    } else {
        return static_cast<C>(value);
    }
}

template <typename S, typename C, bool kOrdered>
HWY_INLINE S Narrow(C value) {
    if constexpr (std::is_same_v<S, uint64_t> && kOrdered) {
        return static_cast<uint64_t>(value) ^ kSignBit;
    } else {
        return static_cast<S>(value);
    }
}

/// Whether a kernel that computes in C takes elements of S.
template <typename S, typename C>
inline constexpr bool kComputesIn =
    std::is_same_v<C, double>  ? std::is_same_v<S, double>
    : std::is_same_v<C, float> ? std::is_same_v<S, float> || std::is_same_v<S, BFloat16> || std::is_same_v<S, Float16>
                               : std::is_integral_v<S>;

/// Reads a tensor's elements as C.
template <typename C>
class Reader {
public:
    /// `ordered` keeps the order of uint64 rather than its value modulo 2^64.
    Reader(const void *data, DataType dtype, bool ordered = false)
        : data_(static_cast<const char *>(data)), size_(static_cast<int64_t>(SizeOf(dtype))) {
        direct_ = dtype == kDataTypeOf<C>;
        DispatchDtype(dtype, [&]<typename S>() {
            if constexpr (kComputesIn<S, C>) {
                convert_ = ordered ? &Convert<S, true> : &Convert<S, false>;
            }
        });
    }

    /// Elements offset, offset + stride, ...: where they are, or else in `buffer`, which has room for n of them.
    HWY_INLINE const C *Read(int64_t offset, int64_t stride, int64_t n, C *HWY_RESTRICT buffer) const {
        if (direct_ && (stride == 1 || n == 1)) {
            return reinterpret_cast<const C *>(data_) + offset;
        }
        convert_(data_ + offset * size_, stride, n, buffer);
        return buffer;
    }
    HWY_INLINE const C *Read(int64_t offset, int64_t n, C *HWY_RESTRICT buffer) const {
        return Read(offset, 1, n, buffer);
    }
    bool direct() const { return direct_; }
    bool is_null() const { return data_ == nullptr; }

private:
    template <typename S, bool kOrdered>
    static void Convert(const void *from, int64_t stride, int64_t n, C *HWY_RESTRICT to) {
        const S *HWY_RESTRICT source = static_cast<const S *>(from);
        if (stride == 1) {
            for (int64_t i = 0; i < n; ++i) {
                to[i] = Widen<S, C, kOrdered>(source[i]);
            }
        } else {
            for (int64_t i = 0; i < n; ++i) {
                to[i] = Widen<S, C, kOrdered>(source[i * stride]);
            }
        }
    }

    const char *data_;
    int64_t size_;
    bool direct_ = false;
    void (*convert_)(const void *, int64_t, int64_t, C *) = nullptr;
};

/// Writes a tensor's elements, given as C.
template <typename C>
class Writer {
public:
    Writer(void *data, DataType dtype, bool ordered = false)
        : data_(static_cast<char *>(data)), size_(static_cast<int64_t>(SizeOf(dtype))) {
        direct_ = dtype == kDataTypeOf<C>;
        DispatchDtype(dtype, [&]<typename S>() {
            if constexpr (kComputesIn<S, C>) {
                convert_ = ordered ? &Convert<S, true> : &Convert<S, false>;
            }
        });
    }

    /// Where to put contiguous elements from `offset` on: in place, or else in `buffer`. Commit brings them home.
    HWY_INLINE C *Begin(int64_t offset, C *buffer) const {
        return direct_ ? reinterpret_cast<C *>(data_) + offset : buffer;
    }
    HWY_INLINE void Commit(int64_t offset, int64_t n, const C *HWY_RESTRICT buffer) const {
        if (!direct_) {
            convert_(buffer, 1, n, data_ + offset * size_);
        }
    }
    /// Writes values to offset, offset + stride, ...
    HWY_INLINE void Write(int64_t offset, int64_t stride, int64_t n, const C *HWY_RESTRICT values) const {
        convert_(values, stride, n, data_ + offset * size_);
    }
    bool is_null() const { return data_ == nullptr; }

private:
    template <typename S, bool kOrdered>
    static void Convert(const C *HWY_RESTRICT from, int64_t stride, int64_t n, void *to) {
        S *HWY_RESTRICT target = static_cast<S *>(to);
        if (stride == 1) {
            for (int64_t i = 0; i < n; ++i) {
                target[i] = Narrow<S, C, kOrdered>(from[i]);
            }
        } else {
            for (int64_t i = 0; i < n; ++i) {
                target[i * stride] = Narrow<S, C, kOrdered>(from[i]);
            }
        }
    }

    char *data_;
    int64_t size_;
    bool direct_ = false;
    void (*convert_)(const C *, int64_t, int64_t, void *) = nullptr;
};

/// The first n (< Lanes(d)) of a vector, the other lanes `pad`. Reads no further.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadFirst(D d, const T *HWY_RESTRICT from, int64_t n, T pad) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
    const auto mask = hn::FirstN(d, static_cast<size_t>(n));
    return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, from), hn::Set(d, pad));
#else
    HWY_ALIGN T lanes[hn::MaxLanes(d)];
    hn::Store(hn::Set(d, pad), d, lanes);
    for (int64_t i = 0; i < n; ++i) {
        lanes[i] = from[i];
    }
    return hn::Load(d, lanes);
#endif
}

/// Stores the first n (< Lanes(d)) lanes and nothing else.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void StoreFirst(D d, hn::Vec<D> v, T *HWY_RESTRICT to, int64_t n) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
    hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(n)), d, to);
#else
    HWY_ALIGN T lanes[hn::MaxLanes(d)];
    hn::Store(v, d, lanes);
    for (int64_t i = 0; i < n; ++i) {
        to[i] = lanes[i];
    }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#endif  // the toggled guard
