#pragma once

#include <cmath>

#include <cuda_runtime.h>

namespace infini_train::cuda {

// By overload, so that a kernel is written once for float and double. Division and roots are rounded correctly.

__device__ __forceinline__ float Exp(float x) {
    return expf(x);
}
__device__ __forceinline__ double Exp(double x) {
    return exp(x);
}
__device__ __forceinline__ float Expm1(float x) {
    return expm1f(x);
}
__device__ __forceinline__ double Expm1(double x) {
    return expm1(x);
}
__device__ __forceinline__ float Log(float x) {
    return logf(x);
}
__device__ __forceinline__ double Log(double x) {
    return log(x);
}
__device__ __forceinline__ float Sqrt(float x) {
    return sqrtf(x);
}
__device__ __forceinline__ double Sqrt(double x) {
    return sqrt(x);
}
__device__ __forceinline__ float Abs(float x) {
    return fabsf(x);
}
__device__ __forceinline__ double Abs(double x) {
    return fabs(x);
}
__device__ __forceinline__ float Fma(float a, float b, float c) {
    return fmaf(a, b, c);
}
__device__ __forceinline__ double Fma(double a, double b, double c) {
    return fma(a, b, c);
}

}  // namespace infini_train::cuda
