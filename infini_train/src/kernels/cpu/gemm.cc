#include "infini_train/src/kernels/cpu/gemm.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/gemm_workspace.h"

namespace infini_train::cpu {
namespace {

// Multiplications below which threads cost more than they save, and from which a single product keeps them all busy.
constexpr int64_t kMinParallel = 200000;
constexpr int64_t kLargeProduct = 4000000;

template <typename T>
void TransposeB(const GemmArgs<T> &g, T *to) {
    ParallelFor(0, g.k, std::max<int64_t>(1, kMinParallel / (g.n + 1)), [&](int64_t begin, int64_t end) {
        for (int64_t j = 0; j < g.n; ++j) {
            for (int64_t p = begin; p < end; ++p) {
                to[p * g.n + j] = g.b[j * g.ldb + p];
            }
        }
    });
}

// Rows [begin, end) of C: for a block of B that stays in the cache, each row of C in turn.
template <typename T>
void IntegerRows(const GemmArgs<T> &g, const T *b, int64_t ldb, int64_t begin, int64_t end) {
    using Wrapping = std::make_unsigned_t<T>;
    constexpr int64_t kSteps = 64;
    constexpr int64_t kColumns = 512;
    for (int64_t i = begin; i < end && !g.accumulate; ++i) {
        for (int64_t j = 0; j < g.n; ++j) {
            g.c[i * g.ldc + j] = g.bias == nullptr ? 0 : g.bias[j];
        }
    }
    for (int64_t jc = 0; jc < g.n; jc += kColumns) {
        const int64_t columns = std::min(kColumns, g.n - jc);
        for (int64_t pc = 0; pc < g.k; pc += kSteps) {
            const int64_t p_end = std::min(g.k, pc + kSteps);
            for (int64_t i = begin; i < end; ++i) {
                T *__restrict c = g.c + i * g.ldc + jc;
                for (int64_t p = pc; p < p_end; ++p) {
                    const auto x = static_cast<Wrapping>(g.a[g.trans_a ? p * g.lda + i : i * g.lda + p]);
                    const T *__restrict y = b + p * ldb + jc;
                    for (int64_t j = 0; j < columns; ++j) {
                        c[j] = static_cast<T>(static_cast<Wrapping>(c[j]) + x * static_cast<Wrapping>(y[j]));
                    }
                }
            }
        }
    }
}

template <typename T>
void IntegerGemm(const GemmArgs<T> &g) {
    if (g.m <= 0 || g.n <= 0) {
        return;
    }
    const T *b = g.b;
    int64_t ldb = g.ldb;
    if (g.trans_b && g.k > 0) {
        T *rows = GemmWorkspace<T>(GemmBuffer::kShared, g.k * g.n);
        TransposeB(g, rows);
        b = rows;
        ldb = g.n;
    }
    const int64_t row_work = std::max<int64_t>(1, g.n * g.k);
    ParallelFor(0, g.m, std::max<int64_t>(1, kMinParallel / 2 / row_work),
                [&](int64_t begin, int64_t end) { IntegerRows(g, b, ldb, begin, end); });
}

// Whether to give each thread whole products. Large ones that don't share out evenly run one after the other instead.
bool SpreadOverThreads(int64_t batch, int64_t work) {
    const int64_t threads = GetNumThreads();
    const int64_t turns = (batch + threads - 1) / threads;
    const bool even = batch * 10 >= turns * threads * 9;
    return even || work < kLargeProduct;
}

template <typename T>
void RunBatched(const BatchedGemmArgs<T> &args) {
    const auto run = [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            GemmArgs<T> gemm = args.gemm;
            gemm.a += i * args.stride_a;
            gemm.b += i * args.stride_b;
            gemm.c += i * args.stride_c;
            Gemm(gemm);
        }
    };
    const GemmArgs<T> &g = args.gemm;
    if (args.batch <= 0 || g.m <= 0 || g.n <= 0) {
        return;
    }
    const int64_t work = std::max<int64_t>(1, g.m * g.n * g.k);
    if (SpreadOverThreads(args.batch, work)) {
        ParallelFor(0, args.batch, std::max<int64_t>(1, kMinParallel / 2 / work), run);
    } else {
        run(0, args.batch);
    }
}

}  // namespace

void Gemm(const GemmArgs<int32_t> &args) {
    IntegerGemm(args);
}

void Gemm(const GemmArgs<int64_t> &args) {
    IntegerGemm(args);
}

void GemmBatched(const BatchedGemmArgs<float> &args) {
    RunBatched(args);
}

void GemmBatched(const BatchedGemmArgs<double> &args) {
    RunBatched(args);
}

void GemmBatched(const BatchedGemmArgs<BFloat16> &args) {
    RunBatched(args);
}

void GemmBatched(const BatchedGemmArgs<Float16> &args) {
    RunBatched(args);
}

void GemmBatched(const BatchedGemmArgs<int32_t> &args) {
    RunBatched(args);
}

void GemmBatched(const BatchedGemmArgs<int64_t> &args) {
    RunBatched(args);
}

}  // namespace infini_train::cpu
