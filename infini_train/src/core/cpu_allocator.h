#pragma once

#include "infini_train/include/core/allocator.h"

namespace infini_train {

/// The one allocator of the CPU's memory. It keeps what is given back for reuse, because fresh pages cost more than the
/// arithmetic on them: below 1 MiB in classes of sizes, per thread and then for all; from 1 MiB up whole blocks, from
/// 2 MiB up in huge pages. Never destroyed. Under AddressSanitizer every block is the system's own, with exact bounds.
Allocator &CpuAllocator();

}  // namespace infini_train
