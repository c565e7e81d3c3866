// nvcuda::wmma for m16n16k16: a lane holds 8 of the 256 elements, which ones is as unspecified as on a GPU.
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
    static_assert(kM == 16 && kN == 16 && kK == 16, "only m16n16k16 is emulated");
    using element_type = T;
    static constexpr int num_elements = 8;
    T x[num_elements];
};

namespace emulation {

// Where element `i` of this lane is in memory.
inline unsigned Place(int i, unsigned leading, bool row_major) {
    const unsigned element = cuda_emulation::lane * 8 + static_cast<unsigned>(i);
    const unsigned row = element / 16, column = element % 16;
    return row_major ? row * leading + column : column * leading + row;
}

}  // namespace emulation

template <typename Use, typename T, typename Layout>
void load_matrix_sync(fragment<Use, 16, 16, 16, T, Layout> &f, const T *from, unsigned leading) {
    __syncwarp();
    for (int i = 0; i < f.num_elements; ++i) {
        f.x[i] = from[emulation::Place(i, leading, std::is_same_v<Layout, row_major>)];
    }
}
template <typename T>
void load_matrix_sync(fragment<accumulator, 16, 16, 16, T> &f, const T *from, unsigned leading, layout_t layout) {
    __syncwarp();
    for (int i = 0; i < f.num_elements; ++i) {
        f.x[i] = from[emulation::Place(i, leading, layout == mem_row_major)];
    }
}
template <typename T>
void store_matrix_sync(T *to, const fragment<accumulator, 16, 16, 16, T> &f, unsigned leading, layout_t layout) {
    __syncwarp();
    for (int i = 0; i < f.num_elements; ++i) {
        to[emulation::Place(i, leading, layout == mem_row_major)] = f.x[i];
    }
}
template <typename Use, typename T, typename Layout, typename V>
void fill_fragment(fragment<Use, 16, 16, 16, T, Layout> &f, V value) {
    for (T &x : f.x) {
        x = static_cast<T>(value);
    }
}

template <typename T, typename LayoutA, typename LayoutB, typename C>
void mma_sync(fragment<accumulator, 16, 16, 16, C> &d, const fragment<matrix_a, 16, 16, 16, T, LayoutA> &a,
              const fragment<matrix_b, 16, 16, 16, T, LayoutB> &b, const fragment<accumulator, 16, 16, 16, C> &c) {
    struct Lane {
        const T *a, *b;
        const C *c;
        C d[8];
    } lane{a.x, b.x, c.x, {}};
    const auto multiply = [](void **lanes, uint32_t /*mask*/) CUDA_EMULATION_UNCHECKED {
        const auto of = [&](int element) { return static_cast<Lane *>(lanes[element / 8]); };
        for (int i = 0; i < 16; ++i) {
            for (int j = 0; j < 16; ++j) {
                const int to = i * 16 + j;
                float sum = static_cast<float>(of(to)->c[to % 8]);
                for (int k = 0; k < 16; ++k) {
                    const int from_a = i * 16 + k, from_b = k * 16 + j;
                    sum +=
                        static_cast<float>(of(from_a)->a[from_a % 8]) * static_cast<float>(of(from_b)->b[from_b % 8]);
                }
                of(to)->d[to % 8] = static_cast<C>(sum);
            }
        }
    };
    cuda_emulation::WarpCollective(0xffffffffU, cuda_emulation::WarpOperation::kMatrixProduct, &lane, multiply,
                                   __builtin_return_address(0));
    for (int i = 0; i < d.num_elements; ++i) {
        d.x[i] = lane.d[i];
    }
}

}  // namespace nvcuda::wmma
