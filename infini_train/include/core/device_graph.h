#pragma once

#include <functional>
#include <memory>

#include "infini_train/include/common/export.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/device.h"

namespace infini_train {

class RecordedGraph;

/// A GPU's work, recorded once and then queued again as a whole: hundreds of launches cost the CPU as much as one. It
/// pays where kernels are so short that the CPU can't keep up with them.
///
///     DeviceGraph graph(device);
///     graph.Capture([&] { loss = model({x})[0]->...; loss->Backward(); });
///     for (...) {
///         x->Copy_(next_batch);  // the graph reads what lies where x lay
///         graph.Replay();        // now `loss` and the gradients are those of this batch
///         optimizer.Step();
///     }
///
/// What a replay reads and writes are the places that the capture read and wrote: inputs are changed in place, and
/// tensors that were made inside keep their place, which only the graph's own work uses, as long as the graph lives.
/// Hooks and all other code of the CPU's run while capturing, and not again. Random numbers of DefaultGenerator() go on
/// from replay to replay as they would without a graph; those of other generators repeat.
///
/// Labels and indices aren't checked while capturing, nor in a replay, and none of the labels may be ignored: their
/// number is part of the recorded loss.
///
/// What a graph can't do throws CudaError or ValueError while capturing: reading a value back (Tensor::Item, ToVector,
/// nn::utils::ClipGradNorm), other copies to or from the CPU that wait, and an optimizer's step, whose learning rate
/// would stay what it was.
class INFINI_TRAIN_EXPORT DeviceGraph {
public:
    /// Throws DeviceError for a device that has no graphs, such as the CPU.
    explicit DeviceGraph(Device device);
    ~DeviceGraph();
    DeviceGraph(const DeviceGraph &) = delete;
    DeviceGraph &operator=(const DeviceGraph &) = delete;

    /// Records what `body` queues on the device's current stream, which is one of the graph's own meanwhile; none of it
    /// runs. What was recorded before is gone, also if `body` throws. Run the same work once or twice without a graph
    /// before, so that what is made at the first call is there.
    void Capture(const std::function<void()> &body);
    /// Queues the recorded work on the current stream. Throws ValueError if there is none.
    void Replay();

    bool IsCaptured() const { return is_captured_; }

    /// Whether this thread is capturing; for code that can't be part of a graph.
    static bool IsCapturing();

private:
    const Device device_;
    const std::unique_ptr<RecordedGraph> graph_;
    bool is_captured_ = false;
    Generator::State first_;      // of the default generator where the capture began
    uint64_t random_blocks_ = 0;  // what it drew
};

}  // namespace infini_train
