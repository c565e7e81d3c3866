// The runtime's calls as cudart and cuBLAS answer them: refused launches, errors that stay, streams, events, graphs.

#include <vector>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "test/cuda_emulation/checker/checker.h"
#include "test/cuda_emulation/faults/buffer.h"
#include "test/cuda_emulation/faults/launches.h"
#include "test/cuda_emulation/runtime/options.h"
#include "test/cuda_emulation/runtime/report.h"

namespace infini_train::test {
namespace {

using cuda_emulation::CurrentOptions;
using cuda_emulation::Defect;
using cuda_emulation::Options;

// Streams that run only when somebody waits, as long as it exists.
class LazyStreams {
public:
    LazyStreams() : before_(CurrentOptions()) { CurrentOptions().lazy_streams = true; }
    ~LazyStreams() {
        (void)cudaDeviceSynchronize();
        CurrentOptions() = before_;
    }

private:
    const Options before_;
};

struct Stream {
    Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking), cudaSuccess); }
    ~Stream() { (void)cudaStreamDestroy(handle); }
    cudaStream_t handle = nullptr;
};

struct Event {
    Event() { EXPECT_EQ(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming), cudaSuccess); }
    ~Event() { (void)cudaEventDestroy(handle); }
    cudaEvent_t handle = nullptr;
};

constexpr int kCount = 700;

TEST(Launches, AreRefused) {
    const Buffer<int> values(std::vector<int>{1});
    const auto launch = [&](dim3 grid, dim3 block, size_t shared_bytes) {
        const cudaError_t error = LaunchShaped(grid, block, shared_bytes, values.data());
        EXPECT_EQ(cudaGetLastError(), error);
        return error;
    };
    EXPECT_EQ(launch(1, 256, 0), cudaSuccess);
    EXPECT_EQ(launch(1, 257, 0), cudaErrorLaunchOutOfResources);
    EXPECT_EQ(launch(1, 1025, 0), cudaErrorInvalidConfiguration);
    EXPECT_EQ(launch(1, dim3(32, 33), 0), cudaErrorInvalidConfiguration);
    EXPECT_EQ(launch(1, dim3(1, 1, 65), 0), cudaErrorInvalidConfiguration);
    EXPECT_EQ(launch(0, 32, 0), cudaErrorInvalidConfiguration);
    EXPECT_EQ(launch(dim3(1, 65536), 32, 0), cudaErrorInvalidConfiguration);
    EXPECT_EQ(launch(dim3(1, 1, 65536), 32, 0), cudaErrorInvalidConfiguration);
    EXPECT_EQ(launch(1, 32, 49 * 1024), cudaErrorInvalidValue);
    EXPECT_EQ(AllowShared(228 * 1024), cudaErrorInvalidValue);
    (void)cudaGetLastError();
    EXPECT_EQ(AllowShared(64 * 1024), cudaSuccess);
    EXPECT_EQ(launch(1, 32, 64 * 1024), cudaSuccess);
    EXPECT_EQ(launch(1, 32, 64 * 1024 + 1), cudaErrorInvalidValue);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Errors, StayAfterAKernelHasFailed) {
    (void)LaunchWild(nullptr);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
    void *data = nullptr;
    EXPECT_EQ(cudaMalloc(&data, 4), cudaErrorIllegalAddress);
    // The report stands for the end of the process: a real device is lost.
    const auto reports = cuda_emulation::TakeReports();
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].defect, Defect::kIllegalAddress);
    EXPECT_EQ(reports[0].site.file, "launches.cu");
    (void)cudaGetLastError();
    EXPECT_EQ(cudaMalloc(&data, 4), cudaSuccess);
    EXPECT_EQ(cudaFree(data), cudaSuccess);
}

TEST(Errors, ComeLateFromALazyStream) {
    const LazyStreams lazy;
    const Stream stream;
    const cudaError_t launched = LaunchWild(stream.handle);
    EXPECT_TRUE(launched == cudaSuccess || launched == cudaErrorIllegalAddress);
    EXPECT_EQ(cudaStreamSynchronize(stream.handle), cudaErrorIllegalAddress);
    EXPECT_EQ(cuda_emulation::TakeReports().size(), 1U);
    (void)cudaGetLastError();
}

// What a stream reads that another one writes, with or without an event between them.
std::vector<int> ReadOnOtherStream(bool with_event) {
    const Buffer<int> values(std::vector<int>(kCount, 1));
    const Stream writer, reader;
    const Event written;
    EXPECT_EQ(LaunchAffine(values.data(), kCount, 10, 5, writer.handle), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(written.handle, writer.handle), cudaSuccess);
    if (with_event) {
        EXPECT_EQ(cudaStreamWaitEvent(reader.handle, written.handle, 0), cudaSuccess);
    }
    EXPECT_EQ(LaunchAffine(values.data(), kCount, 2, 0, reader.handle), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(reader.handle), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(writer.handle), cudaSuccess);
    return values.Values();
}

TEST(Streams, AnEventOrdersThem) {
    const LazyStreams lazy;
    for (int repeat = 0; repeat < 20; ++repeat) {
        EXPECT_EQ(ReadOnOtherStream(true), std::vector<int>(kCount, 30));
    }
}

TEST(Streams, AMissingEventShows) {
    const LazyStreams lazy;
    int wrong = 0;
    for (int repeat = 0; repeat < 20; ++repeat) {
        wrong += ReadOnOtherStream(false) == std::vector<int>(kCount, 25) ? 1 : 0;
    }
    EXPECT_GT(wrong, 10);
}

TEST(Streams, AQuerySaysNotReadyForAWhile) {
    const LazyStreams lazy;
    const Buffer<int> values(std::vector<int>(kCount, 1));
    const Stream stream;
    for (int i = 0; i < 10; ++i) {
        ASSERT_EQ(LaunchAffine(values.data(), kCount, 1, 1, stream.handle), cudaSuccess);
    }
    int waits = 0;
    cudaError_t state = cudaErrorNotReady;
    while ((state = cudaStreamQuery(stream.handle)) == cudaErrorNotReady) {
        ++waits;
    }
    (void)cudaGetLastError();
    EXPECT_EQ(state, cudaSuccess);
    EXPECT_GT(waits, 0);
    EXPECT_EQ(values.Values(), std::vector<int>(kCount, 11));
}

TEST(Streams, TheDefaultOneWaitsForBlockingOnes) {
    const LazyStreams lazy;
    const Buffer<int> values(std::vector<int>(kCount, 1));
    cudaStream_t blocking = nullptr;
    ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
    ASSERT_EQ(LaunchAffine(values.data(), kCount, 10, 5, blocking), cudaSuccess);
    ASSERT_EQ(LaunchAffine(values.data(), kCount, 2, 0, nullptr), cudaSuccess);
    ASSERT_EQ(LaunchAffine(values.data(), kCount, 1, 7, blocking), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(blocking), cudaSuccess);
    EXPECT_EQ(values.Values(), std::vector<int>(kCount, 37));
    EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
}

TEST(Devices, HaveStreamsAndMemoryOfTheirOwn) {
    int count = 0;
    ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
    ASSERT_EQ(count, 2);
    EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
    const Buffer<int> first(std::vector<int>(kCount, 1));
    const Stream of_first;
    ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
    const Buffer<int> second(kCount);
    EXPECT_EQ(LaunchAffine(second.data(), kCount, 1, 1, of_first.handle), cudaErrorInvalidResourceHandle);
    // Between devices a copy needs no help of the host's.
    ASSERT_EQ(cudaMemcpy(second.data(), first.data(), kCount * sizeof(int), cudaMemcpyDeviceToDevice), cudaSuccess);
    ASSERT_EQ(LaunchAffine(second.data(), kCount, 1, 1, nullptr), cudaSuccess);
    EXPECT_EQ(second.Values(), std::vector<int>(kCount, 2));
    (void)LaunchAffine(first.data(), kCount, 1, 1, nullptr);
    (void)cudaDeviceSynchronize();
    const auto reports = cuda_emulation::TakeReports();
    EXPECT_EQ(reports.size(), cuda_emulation::checker::IsActive() ? 1U : 0U);
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    (void)cudaGetLastError();
}

TEST(Graphs, ReplayWhatTwoStreamsDid) {
    const Buffer<int> values(std::vector<int>(kCount, 1)), others(std::vector<int>(kCount, 2));
    const Stream first, second;
    const Event fork, join;
    ASSERT_EQ(cudaStreamBeginCapture(first.handle, cudaStreamCaptureModeRelaxed), cudaSuccess);
    ASSERT_EQ(LaunchAffine(values.data(), kCount, 2, 1, first.handle), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(fork.handle, first.handle), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(second.handle, fork.handle, 0), cudaSuccess);
    ASSERT_EQ(LaunchAffine(others.data(), kCount, 3, 0, second.handle), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(join.handle, second.handle), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(first.handle, join.handle, 0), cudaSuccess);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(first.handle, &graph), cudaSuccess);
    EXPECT_EQ(values.Values()[0], 1);  // nothing has run
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(cudaGraphLaunch(executable, first.handle), cudaSuccess);
    }
    ASSERT_EQ(cudaStreamSynchronize(first.handle), cudaSuccess);
    EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
    EXPECT_EQ(values.Values(), std::vector<int>(kCount, 15));
    EXPECT_EQ(others.Values(), std::vector<int>(kCount, 54));
}

TEST(Graphs, RefuseToWait) {
    const Stream stream;
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeRelaxed), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream.handle), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(cudaStreamEndCapture(stream.handle, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(cudaStreamEndCapture(stream.handle, &graph), cudaErrorIllegalState);
    EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed), cudaErrorStreamCaptureUnsupported);
    (void)cudaGetLastError();
}

TEST(Graphs, WantTheirStreamsJoined) {
    const Stream first, second;
    const Event fork;
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(first.handle, cudaStreamCaptureModeRelaxed), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(fork.handle, first.handle), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(second.handle, fork.handle, 0), cudaSuccess);
    EXPECT_EQ(cudaStreamEndCapture(first.handle, &graph), cudaErrorStreamCaptureUnjoined);
    EXPECT_EQ(graph, nullptr);
    (void)cudaGetLastError();
}

TEST(Blas, MultipliesAndRefuses) {
    // Column-major: a is (2, 3), b is (3, 2) and handed over transposed.
    const Buffer<float> a(std::vector<float>{1, 4, 2, 5, 3, 6}), b(std::vector<float>{1, 4, 2, 5, 3, 6}), c(4);
    cublasHandle_t handle = nullptr;
    ASSERT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
    const float one = 1, zero = 0;
    const auto multiply = [&](int lda, cudaDataType b_type) {
        return cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_T, 2, 2, 3, &one, a.data(), CUDA_R_32F, lda, b.data(),
                            b_type, 2, &zero, c.data(), CUDA_R_32F, 2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    };
    EXPECT_EQ(multiply(2, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(c.Values(), (std::vector<float>{14, 32, 32, 77}));
    EXPECT_EQ(multiply(1, CUDA_R_32F), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(multiply(2, CUDA_R_16F), CUBLAS_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
}

}  // namespace
}  // namespace infini_train::test
