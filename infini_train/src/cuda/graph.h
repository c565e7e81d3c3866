#pragma once

#include <cuda_runtime_api.h>

#include "infini_train/include/core/device_backend.h"

#include "infini_train/src/cuda/caching_allocator.h"
#include "infini_train/src/cuda/random_shift.h"

namespace infini_train::cuda {

/// A CUDA graph, captured from a stream of its own: what the allocator has for that stream only the graph uses.
class Graph : public RecordedGraph {
public:
    Graph(int device, CachingAllocator *allocator);
    ~Graph() override;
    Graph(const Graph &) = delete;
    Graph &operator=(const Graph &) = delete;

    void Begin() override;
    void End(bool keep) override;
    void Replay(const Generator::State &captured, const Generator::State &now) override;

private:
    void Discard() noexcept;

    const int device_;
    CachingAllocator *const allocator_;
    cudaStream_t stream_ = nullptr;
    RandomShift *shift_ = nullptr;
    cudaGraphExec_t executable_ = nullptr;
    cudaStream_t previous_stream_ = nullptr;
};

}  // namespace infini_train::cuda
