#include "test/cuda_emulation/checker/places.h"

#include <algorithm>
#include <link.h>

extern thread_local unsigned char dynamic_shared[232 * 1024];

namespace cuda_emulation::checker {
namespace {

const char *Dynamic() {
    return reinterpret_cast<const char *>(dynamic_shared);
}

}  // namespace

void Places::FindModules() {
    modules_.clear();
    struct Found {
        std::vector<std::pair<const char *, const char *>> modules;
        const char *shared_begin = nullptr;
        const char *program_begin = nullptr;
        size_t shared_bytes = 0;
    } found;
    dl_iterate_phdr(
        [](dl_phdr_info *info, size_t, void *data) {
            auto *const result = static_cast<Found *>(data);
            const auto *const base = reinterpret_cast<const char *>(info->dlpi_addr);
            const auto *const shared = static_cast<const char *>(info->dlpi_tls_data);
            for (int i = 0; i < info->dlpi_phnum; ++i) {
                const auto &part = info->dlpi_phdr[i];
                if (part.p_type == PT_LOAD) {
                    result->modules.emplace_back(base + part.p_vaddr, base + part.p_vaddr + part.p_memsz);
                } else if (part.p_type == PT_TLS && shared != nullptr && Dynamic() >= shared &&
                           Dynamic() < shared + part.p_memsz) {
                    result->shared_begin = shared;
                    result->shared_bytes = part.p_memsz;
                    result->program_begin = base;
                }
            }
            return 0;
        },
        &found);
    modules_ = std::move(found.modules);
    shared_begin_ = found.shared_begin;
    shared_bytes_ = found.shared_bytes;
    program_begin_ = found.program_begin;
}

void Places::OnLaunch(size_t shared_bytes, const void *call, size_t call_bytes) {
    // Each thread of the host has a shared memory of its own.
    if (Dynamic() + shared_bytes != dynamic_end_ || modules_.empty()) {
        FindModules();
    }
    dynamic_end_ = Dynamic() + shared_bytes;
    arguments_begin_ = static_cast<const char *>(call);
    arguments_bytes_ = call_bytes;
}

bool Places::IsBeyondDynamic(const char *address, size_t bytes) const {
    const bool is_dynamic = address + bytes > Dynamic() && address < Dynamic() + sizeof(dynamic_shared);
    return is_dynamic && address + bytes > dynamic_end_;
}

bool Places::IsOfProgram(const char *address) const {
    return std::any_of(modules_.begin(), modules_.end(),
                       [&](const auto &module) { return address >= module.first && address < module.second; });
}

}  // namespace cuda_emulation::checker
