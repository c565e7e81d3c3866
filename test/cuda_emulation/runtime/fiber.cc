#include "test/cuda_emulation/runtime/fiber.h"

#include <cstdint>
#include <cstdlib>
#include <sys/mman.h>

#ifndef __x86_64__
#error "the emulation switches fibers on x86-64 only"
#endif

// The registers that a call preserves, by the System V ABI; about 5 ns, where swapcontext's system call takes 200.
extern "C" void cuda_emulation_switch(void **saved, void *to);
asm(R"(
.text
.globl cuda_emulation_switch
.type cuda_emulation_switch,@function
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
    popq %rcx
    jmp *%rcx
.size cuda_emulation_switch,.-cuda_emulation_switch
)");

namespace cuda_emulation {
namespace {

constexpr size_t kStacks = 1024;
constexpr size_t kPage = 4096;
constexpr int kSavedRegisters = 6;

char *Stacks() {
    static char *const stacks = [] {
        void *const memory = mmap(nullptr, kStacks * kStackBytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            std::abort();
        }
        auto *const begin = static_cast<char *>(memory);
        for (size_t i = 0; i < kStacks; ++i) {
            mprotect(begin + i * kStackBytes, kPage, PROT_NONE);
        }
        return begin;
    }();
    return stacks;
}

}  // namespace

void SwitchFiber(void **saved, void *to) {
    cuda_emulation_switch(saved, to);
}

void *NewFiber(char *stack, void (*entry)()) {
    auto **top = reinterpret_cast<void **>(stack + kStackBytes - 64);
    *--top = nullptr;  // in place of a return address: aligned as after a call
    *--top = reinterpret_cast<void *>(entry);
    for (int i = 0; i < kSavedRegisters; ++i) {
        *--top = nullptr;
    }
    return top;
}

char *FiberStack(size_t index) {
    return Stacks() + index * kStackBytes;
}

bool IsOnFiberStack(const void *address) {
    const auto offset = static_cast<uintptr_t>(static_cast<const char *>(address) - Stacks());
    return offset < kStacks * kStackBytes;
}

}  // namespace cuda_emulation
