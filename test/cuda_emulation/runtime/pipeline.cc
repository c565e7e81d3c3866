// cp.async: a copy takes effect when its group is waited for.

#include <cstring>
#include <deque>
#include <unordered_map>

#include "test/cuda_emulation/checker/checker.h"
#include "test/cuda_emulation/include/cuda_pipeline_primitives.h"
#include "test/cuda_emulation/runtime/block.h"

namespace cuda_emulation {
namespace {

struct Copy {
    void *to;
    const void *from;
    size_t bytes;
    size_t zero_bytes;
    void *pc;
};

// A thread's committed groups, the open one last.
using Groups = std::deque<std::vector<Copy>>;
std::unordered_map<uint32_t, Groups> copies;

Groups &GroupsOfThread() {
    Groups &groups = copies[block.current->linear];
    if (groups.empty()) {
        groups.emplace_back();
    }
    return groups;
}

}  // namespace

void DropCopies() {
    copies.clear();
}

void QueueCopy(void *to, const void *from, size_t bytes, size_t zero_bytes, void *pc) {
    if ((bytes != 4 && bytes != 8 && bytes != 16) || zero_bytes > bytes) {
        Trap("__pipeline_memcpy_async: expected 4, 8 or 16 bytes", pc);
    }
    GroupsOfThread().back().push_back({to, from, bytes, zero_bytes, pc});
}

void CommitCopies() {
    GroupsOfThread().emplace_back();
}

void WaitForCopies(unsigned prior) {
    Groups &groups = GroupsOfThread();
    while (groups.size() > size_t{1} + prior) {
        for (const Copy &copy : groups.front()) {
            const size_t read = copy.bytes - copy.zero_bytes;
            if (read > 0) {
                checker::OnAccess(copy.from, read, false, copy.pc);
            }
            checker::OnAccess(copy.to, copy.bytes, true, copy.pc);
            std::memcpy(copy.to, copy.from, read);
            std::memset(static_cast<char *>(copy.to) + read, 0, copy.zero_bytes);
        }
        groups.pop_front();
    }
}

}  // namespace cuda_emulation
