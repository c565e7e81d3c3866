// The calls that -fsanitize=alignment,bounds,... plants in kernels where behaviour is undefined. Their library isn't
// linked; of what they hand over only the source's place would be of use, and the address has that, too.

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "test/cuda_emulation/runtime/report.h"
#include "test/cuda_emulation/runtime/scheduler.h"

namespace {

using cuda_emulation::Defect;

// The first member of all descriptions.
struct Source {
    const char *file;
    uint32_t line;
    uint32_t column;
};

[[noreturn]] void Fail(const void *description, Defect defect, const char *what, const void *pc) {
    if (cuda_emulation::CurrentThread() == nullptr) {
        const auto *const source = static_cast<const Source *>(description);
        std::fprintf(stderr, "cuda_emulation: host code at %s:%u: %s\n", source->file, source->line, what);
        std::abort();
    }
    cuda_emulation::AddReport(defect, pc, what,
                              defect == Defect::kMisaligned ? cudaErrorMisalignedAddress : cudaErrorLaunchFailure);
    cuda_emulation::AbandonKernel();
}

}  // namespace

#define CUDA_EMULATION_UNDEFINED(name, defect, what)                     \
    [[noreturn]] void __ubsan_handle_##name##_abort(void *description) { \
        Fail(description, defect, what, __builtin_return_address(0));    \
    }

extern "C" {
CUDA_EMULATION_UNDEFINED(type_mismatch_v1, Defect::kMisaligned, "a pointer that isn't aligned for its type, or null")
CUDA_EMULATION_UNDEFINED(pointer_overflow, Defect::kUndefined, "an offset takes a pointer around the address space")
CUDA_EMULATION_UNDEFINED(out_of_bounds, Defect::kUndefined, "an index outside an array's bounds")
CUDA_EMULATION_UNDEFINED(shift_out_of_bounds, Defect::kUndefined, "a shift too far, or of a negative number")
CUDA_EMULATION_UNDEFINED(add_overflow, Defect::kUndefined, "a sum of signed integers overflows")
CUDA_EMULATION_UNDEFINED(sub_overflow, Defect::kUndefined, "a difference of signed integers overflows")
CUDA_EMULATION_UNDEFINED(mul_overflow, Defect::kUndefined, "a product of signed integers overflows")
CUDA_EMULATION_UNDEFINED(divrem_overflow, Defect::kUndefined, "a division by zero, or its result overflows")
CUDA_EMULATION_UNDEFINED(negate_overflow, Defect::kUndefined, "a signed integer's negative overflows")
}
