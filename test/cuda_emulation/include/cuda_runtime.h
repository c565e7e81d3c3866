// Stands before the toolkit's cuda_runtime.h: its types and prototypes of the host, and the device's side for the CPU.
#pragma once

#include_next <cuda_runtime.h>

#include "cuda_emulation/atomics.h"
#include "cuda_emulation/builtins.h"
#include "cuda_emulation/launch.h"
#include "cuda_emulation/math.h"
#include "cuda_emulation/qualifiers.h"
#include "cuda_emulation/warp.h"
