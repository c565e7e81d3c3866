#include "test/cuda_emulation/checker/shadow.h"

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

namespace cuda_emulation::checker {

void *ReservePages(size_t bytes) {
    void *const pages =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) {
        std::perror("cuda_emulation: no addresses for the checker's notes");
        std::abort();
    }
    return pages;
}

Shadow::Shadow(size_t bytes)
    : words_(static_cast<Cell *>(ReservePages((bytes / 4 + 1) * sizeof(Cell)))),
      bytes_(static_cast<Cell *>(ReservePages((bytes + 4) * sizeof(Cell)))) {}

}  // namespace cuda_emulation::checker
