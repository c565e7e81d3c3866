#pragma once

#include <gtest/gtest.h>

#include "infini_train/src/kernels/cpu/simd_targets.h"
//
#include <hwy/highway.h>
#include <hwy/targets.h>

namespace infini_train::test {

/// Runs `body` with each of the machine's instruction sets that the kernels are compiled for.
template <typename Body>
void ForEachInstructionSet(Body &&body) {
    const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
    for (int64_t left = targets; left != 0; left &= left - 1) {
        const int64_t target = left & -left;
        SCOPED_TRACE(hwy::TargetName(target));
        hwy::SetSupportedTargetsForTest(target);
        hwy::GetChosenTarget().Update(target);
        body();
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(targets);
}

}  // namespace infini_train::test
