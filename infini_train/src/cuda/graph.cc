#include "infini_train/src/cuda/graph.h"

#include "infini_train/src/cuda/blas.h"
#include "infini_train/src/cuda/current.h"
#include "infini_train/src/cuda/device_scope.h"
#include "infini_train/src/cuda/error.h"

namespace infini_train::cuda {
namespace {

thread_local const RandomShift *current_shift = nullptr;

}  // namespace

const RandomShift *CurrentRandomShift() {
    return current_shift;
}

void SetCurrentRandomShift(const RandomShift *shift) {
    current_shift = shift;
}

Graph::Graph(int device, CachingAllocator *allocator) : device_(device), allocator_(allocator) {
    const DeviceScope scope(device_);
    shift_ = static_cast<RandomShift *>(allocator->Allocate(sizeof(RandomShift)));
    try {
        CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    } catch (...) {
        allocator->Deallocate(shift_, sizeof(RandomShift));
        throw;
    }
    allocator_->KeepFor(stream_);
}

Graph::~Graph() {
    try {
        const DeviceScope scope(device_);
        // A replay may still be running, on any stream.
        (void)cudaDeviceSynchronize();
        Discard();
        ReleaseBlas(stream_);
        allocator_->Inherit(stream_);
        (void)cudaStreamDestroy(stream_);
        allocator_->Deallocate(shift_, sizeof(RandomShift));
    } catch (...) {
        // The device has failed; its next call says so.
    }
}

void Graph::Discard() noexcept {
    if (executable_ != nullptr) {
        (void)cudaGraphExecDestroy(executable_);
        executable_ = nullptr;
    }
}

void Graph::Begin() {
    if (executable_ != nullptr) {
        CheckCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        Discard();
    }
    previous_stream_ = CurrentStreamOf(device_);
    // Other threads may allocate and synchronise meanwhile, and so may the allocator in this one.
    CheckCuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    SetCurrentStreamOf(device_, stream_);
    SetCurrentRandomShift(shift_);
}

void Graph::End(bool keep) {
    SetCurrentStreamOf(device_, previous_stream_);
    SetCurrentRandomShift(nullptr);
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream_, &graph);
    if (!keep || error != cudaSuccess) {
        if (graph != nullptr) {
            (void)cudaGraphDestroy(graph);
        }
        (void)cudaGetLastError();
        if (keep) {
            ThrowCuda(error, "cudaStreamEndCapture");
        }
        return;
    }
    const cudaError_t instantiated = cudaGraphInstantiate(&executable_, graph, 0);
    (void)cudaGraphDestroy(graph);
    CheckCuda(instantiated, "cudaGraphInstantiate");
}

void Graph::Replay(const Generator::State &captured, const Generator::State &now) {
    StoreRandomShift(shift_, {captured, now});
    CheckCuda(cudaGraphLaunch(executable_, CurrentStream()), "cudaGraphLaunch");
}

}  // namespace infini_train::cuda
