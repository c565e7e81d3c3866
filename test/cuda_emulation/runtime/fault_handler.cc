// What the processor stops: in a kernel it becomes a report and ends the kernel, on the host a report alone, if it was
// device memory that the host touched. Anything else goes where it went before.

#include <cstdio>
#include <cstdlib>
#include <signal.h>
#include <ucontext.h>

#include "test/cuda_emulation/runtime/fiber.h"
#include "test/cuda_emulation/runtime/memory.h"
#include "test/cuda_emulation/runtime/report.h"
#include "test/cuda_emulation/runtime/scheduler.h"

namespace cuda_emulation {
namespace {

struct sigaction before_segv, before_ill;

// Of the fault that EndKernel reports.
struct {
    Defect defect;
    const void *pc;
    char text[128];
    cudaError_t error;
} fault;

// Where a faulting kernel goes on, on its own stack and outside the signal handler.
[[noreturn]] void EndKernel() {
    AddReport(fault.defect, fault.pc, fault.text, fault.error);
    AbandonKernel();
}

void LeaveToOthers(int signal, const struct sigaction &before) {
    sigaction(signal, &before, nullptr);  // the instruction faults again
}

void OnFault(int signal, siginfo_t *info, void *context) {
    auto *const registers = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
    const auto *const pc = reinterpret_cast<const char *>(registers[REG_RIP]);
    const void *const address = info->si_addr;
    const bool in_kernel = IsOnFiberStack(reinterpret_cast<const void *>(registers[REG_RSP]));
    if (in_kernel && CurrentThread() != nullptr) {
        fault.pc = pc + 1;  // as if it were where a call returns to
        if (signal == SIGILL) {
            fault.defect = Defect::kTrap;
            fault.error = cudaErrorIllegalInstruction;
            std::snprintf(fault.text, sizeof(fault.text),
                          "an instruction that the compiler placed where nobody should come");
        } else {
            fault.defect = Defect::kIllegalAddress;
            fault.error = cudaErrorIllegalAddress;
            std::snprintf(fault.text, sizeof(fault.text), "%p is not allocated", address);
        }
        registers[REG_RSP] = (registers[REG_RSP] - 256) / 16 * 16 - 8;
        registers[REG_RIP] = reinterpret_cast<greg_t>(&EndKernel);
        return;
    }
    if (signal == SIGSEGV && IsDevice(address)) {
        if (OpenForHost(address)) {
            char text[128];
            std::snprintf(text, sizeof(text), "the host touches device memory at %p", address);
            AddReport(Defect::kHostAccess, pc + 1, text);
            return;  // and reads or writes it
        }
        std::fprintf(stderr, "cuda_emulation: the host touches device memory at %p, which isn't allocated\n", address);
    }
    LeaveToOthers(signal, signal == SIGSEGV ? before_segv : before_ill);
}

const bool installed = [] {
    static char stack[1 << 16];
    const stack_t alternative{stack, 0, sizeof(stack)};
    sigaltstack(&alternative, nullptr);
    struct sigaction action {};
    action.sa_sigaction = &OnFault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, &before_segv);
    sigaction(SIGILL, &action, &before_ill);
    return true;
}();

}  // namespace
}  // namespace cuda_emulation
