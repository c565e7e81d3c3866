#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::cpu {

enum class ReduceKind { kSum, kMax, kMin };

/// A dimension of a reduction's input, several merged into one where memory allows.
struct ReduceDim {
    int64_t size = 1;
    int64_t stride = 0;      // of the input, in elements
    int64_t out_stride = 0;  // 0 where reduced
    bool reduced = false;
};

/// The dimensions of `input` that matter, the widest stride first; those that `output` has size 1 in are reduced.
/// Empty ones are the caller's business.
std::vector<ReduceDim> PlanReduction(const TensorRef &output, const ConstTensorRef &input);

/// One pass reduces one dimension: out[k, i] is what in[k, r, i] gives over all r.
struct ReducePass {
    std::vector<ReduceDim> outer;  // k
    ReduceDim reduced;             // r
    ReduceDim inner;               // i; size 1 where rows are reduced
    int64_t outer_count = 1;
};

/// Takes the next pass out of `dims`. If other reduced dimensions remain, the pass writes an intermediate result, and
/// `dims` become those of it; otherwise `dims` become empty and the pass writes the output.
ReducePass TakePass(std::vector<ReduceDim> *dims);

/// Counts through the positions of some dimensions, the last one fastest, with their offsets.
class Odometer {
public:
    Odometer(std::span<const ReduceDim> dims, int64_t position);

    void Next();
    int64_t in() const { return in_; }
    int64_t out() const { return out_; }

private:
    std::span<const ReduceDim> dims_;
    std::vector<int64_t> digits_;
    int64_t in_ = 0;
    int64_t out_ = 0;
};

}  // namespace infini_train::cpu
