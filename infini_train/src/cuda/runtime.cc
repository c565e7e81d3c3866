#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/cuda/current.h"
#include "infini_train/src/cuda/error.h"

namespace infini_train::cuda {
namespace {

// A null stream is the device's default one.
thread_local cudaStream_t current_streams[kMaxDevices] = {};

int AttributeOfCurrentDevice(cudaDeviceAttr attribute) {
    int value = 0;
    CheckCuda(cudaDeviceGetAttribute(&value, attribute, CurrentDeviceIndex()), "cudaDeviceGetAttribute");
    return value;
}

}  // namespace

int CurrentDeviceIndex() {
    int index = 0;
    CheckCuda(cudaGetDevice(&index), "cudaGetDevice");
    return index;
}

cudaStream_t CurrentStream() {
    return current_streams[CurrentDeviceIndex()];
}

cudaStream_t CurrentStreamOf(int index) {
    return current_streams[index];
}

void SetCurrentStreamOf(int index, cudaStream_t stream) {
    current_streams[index] = stream;
}

int NumMultiprocessors() {
    static const int count = AttributeOfCurrentDevice(cudaDevAttrMultiProcessorCount);
    return count;
}

int MaxSharedBytes() {
    static const int bytes = AttributeOfCurrentDevice(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    return bytes;
}

}  // namespace infini_train::cuda
