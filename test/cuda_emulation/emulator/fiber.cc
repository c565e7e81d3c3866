#include "test/cuda_emulation/emulator/fiber.h"

#include <new>
#include <sys/mman.h>

// void cuda_emulation_switch(void **save, void *to): puts the registers that a function must keep on the stack, and
// takes those of the other from its stack. Some ten nanoseconds, where swapcontext needs a system call.
extern "C" void cuda_emulation_switch(void **save, void *to);
asm(R"(
    .text
    .globl cuda_emulation_switch
    .type cuda_emulation_switch, @function
cuda_emulation_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size cuda_emulation_switch, . - cuda_emulation_switch
)");

namespace cuda_emulation {
namespace {

constexpr size_t kNumStacks = 1024;
constexpr size_t kPage = 4096;

char *Stacks() {
    static char *const stacks = [] {
        void *const memory = mmap(nullptr, kNumStacks * Fiber::kStackBytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            throw std::bad_alloc();
        }
        for (size_t i = 0; i < kNumStacks; ++i) {
            mprotect(static_cast<char *>(memory) + i * Fiber::kStackBytes, kPage, PROT_NONE);
        }
        return static_cast<char *>(memory);
    }();
    return stacks;
}

}  // namespace

void Fiber::Start(char *stack, void (*entry)()) {
    void **top = reinterpret_cast<void **>(stack + kStackBytes - 64);
    *--top = nullptr;  // where `entry` would return to; it also aligns the stack as a call does
    *--top = reinterpret_cast<void *>(entry);
    for (int i = 0; i < 6; ++i) {
        *--top = nullptr;
    }
    stack_pointer_ = top;
}

void Fiber::SwitchFrom(Fiber *from) {
    cuda_emulation_switch(&from->stack_pointer_, stack_pointer_);
}

char *FiberStack(size_t index) {
    return Stacks() + index * Fiber::kStackBytes;
}

bool IsOnFiberStack(const void *address) {
    const char *const stacks = Stacks();
    return address >= stacks && address < stacks + kNumStacks * Fiber::kStackBytes;
}

}  // namespace cuda_emulation
