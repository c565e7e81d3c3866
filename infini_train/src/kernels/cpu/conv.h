#pragma once

#include "infini_train/src/kernels/conv.h"

namespace infini_train::cpu {

// The kernels of kernels/conv.h for the two types that they compute in. No result depends on the number of threads.

void Conv2dForward(const kernels::Conv2dShape &shape, const float *input, const float *weight, const float *bias,
                   float *output);
void Conv2dForward(const kernels::Conv2dShape &shape, const double *input, const double *weight, const double *bias,
                   double *output);

void Conv2dBackwardInput(const kernels::Conv2dShape &shape, const float *grad_output, const float *weight,
                         float *grad_input);
void Conv2dBackwardInput(const kernels::Conv2dShape &shape, const double *grad_output, const double *weight,
                         double *grad_input);

void Conv2dBackwardWeight(const kernels::Conv2dShape &shape, const float *grad_output, const float *input,
                          float *grad_weight);
void Conv2dBackwardWeight(const kernels::Conv2dShape &shape, const double *grad_output, const double *input,
                          double *grad_weight);

/// Multiply-adds that are worth a thread.
inline constexpr int64_t kConvMinWork = 200000;

}  // namespace infini_train::cpu
