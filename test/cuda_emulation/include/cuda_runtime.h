// Takes the place of the toolkit's header of this name: its types and prototypes, and device code for the CPU.
#pragma once

#include_next <cuda_runtime.h>

#include "cuda_emulation/device.h"
