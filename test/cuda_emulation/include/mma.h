// nvcuda::wmma for 16x16x16: a lane holds 8 of the 256 elements, in rows. On a GPU the places are others and
// unspecified.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int kM, int kN, int kK, typename T, typename Layout = void>
struct fragment {
    static_assert(kM == 16 && kN == 16 && kK == 16, "only 16x16x16 is emulated");
    static constexpr int num_elements = 8;
    static constexpr int num_storage_elements = 8;
    using element_type = T;
    using storage_element_type = T;
    T x[8];
};

template <typename T>
using Accumulator = fragment<accumulator, 16, 16, 16, T>;

namespace internal {

/// The offset of element i of this lane.
CUDA_EMULATION_INLINE int64_t OffsetOf(int i, unsigned stride, bool is_row_major) {
    const int element = static_cast<int>(::cuda_emulation::lane_index) * 8 + i;
    const int64_t row = element / 16, column = element % 16;
    return is_row_major ? row * stride + column : column * stride + row;
}

/// What the hardware wants of a tile in memory: aligned to 32 bytes, its rows to 16.
template <typename T>
CUDA_EMULATION_ENTRY void CheckTile(const T *data, unsigned stride) {
    if (reinterpret_cast<uintptr_t>(data) % 32 != 0 || stride * sizeof(T) % 16 != 0) {
        ::cuda_emulation::FailAlignment("a tile of wmma isn't aligned to 32 bytes, or its stride not to 16",
                                        __builtin_return_address(0));
    }
}

template <typename T, typename C>
struct MmaData {
    const T *a;
    const T *b;
    const C *c;
    C result[8];
};

template <typename T, typename C>
CUDA_EMULATION_UNCHECKED void ExchangeMma(void **lanes, uint32_t) {
    using Data = MmaData<T, C>;
    float a[16][16], b[16][16];
    for (int e = 0; e < 256; ++e) {
        a[e / 16][e % 16] = static_cast<float>(static_cast<Data *>(lanes[e / 8])->a[e % 8]);
        b[e / 16][e % 16] = static_cast<float>(static_cast<Data *>(lanes[e / 8])->b[e % 8]);
    }
    for (int i = 0; i < 16; ++i) {
        for (int j = 0; j < 16; ++j) {
            auto *const data = static_cast<Data *>(lanes[(i * 16 + j) / 8]);
            auto sum = static_cast<float>(data->c[j % 8]);
            for (int k = 0; k < 16; ++k) {
                sum += a[i][k] * b[k][j];
            }
            data->result[j % 8] = static_cast<C>(sum);
        }
    }
}

template <typename T, typename C>
CUDA_EMULATION_ENTRY void Multiply(MmaData<T, C> *data) {
    ::cuda_emulation::MeetInWarp(::cuda_emulation::kWholeWarp, ::cuda_emulation::WarpOperation::kMma, data,
                                 &ExchangeMma<T, C>, __builtin_return_address(0));
}

}  // namespace internal

template <typename Use, typename T, typename Layout>
CUDA_EMULATION_INLINE void load_matrix_sync(fragment<Use, 16, 16, 16, T, Layout> &to, const T *from, unsigned stride) {
    internal::CheckTile(from, stride);
    __syncwarp();
    for (int i = 0; i < 8; ++i) {
        to.x[i] = from[internal::OffsetOf(i, stride, std::is_same_v<Layout, row_major>)];
    }
}
template <typename T>
CUDA_EMULATION_INLINE void load_matrix_sync(Accumulator<T> &to, const T *from, unsigned stride, layout_t layout) {
    internal::CheckTile(from, stride);
    __syncwarp();
    for (int i = 0; i < 8; ++i) {
        to.x[i] = from[internal::OffsetOf(i, stride, layout == mem_row_major)];
    }
}
template <typename T>
CUDA_EMULATION_INLINE void store_matrix_sync(T *to, const Accumulator<T> &from, unsigned stride, layout_t layout) {
    internal::CheckTile(to, stride);
    __syncwarp();
    for (int i = 0; i < 8; ++i) {
        to[internal::OffsetOf(i, stride, layout == mem_row_major)] = from.x[i];
    }
}
template <typename Use, typename T, typename Layout, typename V>
CUDA_EMULATION_INLINE void fill_fragment(fragment<Use, 16, 16, 16, T, Layout> &to, V value) {
    for (T &x : to.x) {
        x = static_cast<T>(value);
    }
}
template <typename T, typename LayoutA, typename LayoutB, typename C>
CUDA_EMULATION_INLINE void mma_sync(Accumulator<C> &d, const fragment<matrix_a, 16, 16, 16, T, LayoutA> &a,
                                    const fragment<matrix_b, 16, 16, 16, T, LayoutB> &b, const Accumulator<C> &c) {
    internal::MmaData<T, C> data{a.x, b.x, c.x, {}};
    internal::Multiply(&data);
    for (int i = 0; i < 8; ++i) {
        d.x[i] = data.result[i];
    }
}

}  // namespace nvcuda::wmma
