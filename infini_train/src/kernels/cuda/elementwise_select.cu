// Comparisons, Clamp and Where.

#include <type_traits>

#include "infini_train/src/kernels/cuda/elementwise.cuh"
#include "infini_train/src/kernels/cuda/elementwise_families.h"
#include "infini_train/src/kernels/functors.h"

namespace infini_train::cuda {
namespace {

using kernels::CompareOp;

struct CompareGroup {
    CompareOp op;

    template <typename C, int kLength>
    __device__ __forceinline__ void operator()(const C (&in)[2][kLength], C (&out)[kLength]) const {
        switch (op) {
            case CompareOp::kEquals:
                return ForEach(functors::Equals(), in, out);
            case CompareOp::kNotEquals:
                return ForEach(functors::NotEquals(), in, out);
            case CompareOp::kLt:
                return ForEach(functors::Lt(), in, out);
            case CompareOp::kLe:
                return ForEach(functors::Le(), in, out);
            case CompareOp::kAnd:
                return ForEach(functors::And(), in, out);
            case CompareOp::kOr:
                return ForEach(functors::Or(), in, out);
        }
    }
};

template <typename C>
struct ClampGroup {
    C low;
    C high;

    template <int kLength>
    __device__ __forceinline__ void operator()(const C (&in)[1][kLength], C (&out)[kLength]) const {
#pragma unroll
        for (int i = 0; i < kLength; ++i) {
            out[i] = functors::Clamp()(in[0][i], low, high);
        }
    }
};

template <typename C>
struct ClampBackwardGroup {
    C low;
    C high;

    template <int kLength>
    __device__ __forceinline__ void operator()(const C (&in)[2][kLength], C (&out)[kLength]) const {
#pragma unroll
        for (int i = 0; i < kLength; ++i) {
            out[i] = functors::ClampBackward()(in[0][i], in[1][i], low, high);
        }
    }
};

struct WhereGroup {
    template <typename C, int kLength>
    __device__ __forceinline__ void operator()(const C (&in)[3][kLength], C (&out)[kLength]) const {
#pragma unroll
        for (int i = 0; i < kLength; ++i) {
            out[i] = in[0][i] != 0 ? in[1][i] : in[2][i];
        }
    }
};

template <typename A, typename B>
void RunCompare(const char *name, const TensorRef &output, const A &a, const B &b, CompareOp op, DataType common) {
    VisitWide(common, [&]<typename C>(std::type_identity<C>) {
        const ElementwiseInput<C> inputs[] = {a, b};
        RunElementwise(name, output, inputs, CompareGroup{op});
    });
}

}  // namespace

void CompareKernel(TensorRef output, ConstTensorRef a, ConstTensorRef b, CompareOp op, DataType common) {
    RunCompare("Compare", output, a, b, op, common);
}

void CompareScalarKernel(TensorRef output, ConstTensorRef a, Scalar b, CompareOp op, DataType common) {
    RunCompare("CompareScalar", output, a, b, op, common);
}

void ScalarCompareKernel(TensorRef output, Scalar a, ConstTensorRef b, CompareOp op, DataType common) {
    RunCompare("ScalarCompare", output, a, b, op, common);
}

void ClampKernel(TensorRef output, ConstTensorRef input, Scalar low, Scalar high) {
    VisitWide(output.dtype, [&]<typename C>(std::type_identity<C>) {
        const ElementwiseInput<C> inputs[] = {input};
        RunElementwise("Clamp", output, inputs, ClampGroup<C>{low.To<C>(), high.To<C>()});
    });
}

void ClampBackwardKernel(TensorRef grad_input, ConstTensorRef grad_output, ConstTensorRef input, Scalar low,
                         Scalar high) {
    const auto run = [&]<typename C>(std::type_identity<C>) {
        const ElementwiseInput<C> inputs[] = {grad_output, input};
        RunElementwise("ClampBackward", grad_input, inputs, ClampBackwardGroup<C>{low.To<C>(), high.To<C>()});
    };
    if (grad_input.dtype == DataType::kFLOAT64) {
        run(std::type_identity<double>{});
    } else {
        run(std::type_identity<float>{});
    }
}

void WhereKernel(TensorRef output, ConstTensorRef condition, ConstTensorRef a, ConstTensorRef b) {
    VisitWide(output.dtype, [&]<typename C>(std::type_identity<C>) {
        const ElementwiseInput<C> inputs[] = {condition, a, b};
        RunElementwise("Where", output, inputs, WhereGroup());
    });
}

}  // namespace infini_train::cuda
