#include "infini_train/include/core/device_graph.h"

#include <utility>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/device_backend.h"
#include "infini_train/include/core/device_guard.h"

#include "infini_train/src/common/format.h"

namespace infini_train {
namespace {

thread_local bool is_capturing = false;

std::unique_ptr<RecordedGraph> NewGraph(Device device) {
    auto graph = GetDeviceBackend(device).NewGraph(device.index());
    if (graph == nullptr) {
        Throw<DeviceError>("DeviceGraph: expected a GPU, got {}", device.ToString());
    }
    return graph;
}

// Ends a capture, by default without a result.
class Capturing {
public:
    explicit Capturing(RecordedGraph *graph) : graph_(graph) {
        graph_->Begin();
        is_capturing = true;
    }
    ~Capturing() {
        if (graph_ != nullptr) {
            is_capturing = false;
            graph_->End(/*keep=*/false);
        }
    }
    Capturing(const Capturing &) = delete;
    Capturing &operator=(const Capturing &) = delete;

    void Keep() {
        is_capturing = false;
        std::exchange(graph_, nullptr)->End(/*keep=*/true);
    }

private:
    RecordedGraph *graph_;
};

}  // namespace

DeviceGraph::DeviceGraph(Device device) : device_(device), graph_(NewGraph(device)) {}

DeviceGraph::~DeviceGraph() = default;

bool DeviceGraph::IsCapturing() {
    return is_capturing;
}

void DeviceGraph::Capture(const std::function<void()> &body) {
    if (is_capturing) {
        throw ValueError("DeviceGraph::Capture: this thread is capturing already");
    }
    Generator &generator = DefaultGenerator();
    is_captured_ = false;
    first_ = generator.GetState();
    // Nothing is drawn before the first replay.
    const struct PutBack {
        Generator *generator;
        Generator::State state;
        ~PutBack() { generator->SetState(state); }
    } put_back{&generator, first_};

    const DeviceGuard guard(device_);
    Capturing capturing(graph_.get());
    body();
    random_blocks_ = generator.GetState().offset - first_.offset;
    capturing.Keep();
    is_captured_ = true;
}

void DeviceGraph::Replay() {
    if (!is_captured_) {
        throw ValueError("DeviceGraph::Replay: nothing was captured");
    }
    const DeviceGuard guard(device_);
    graph_->Replay(first_, DefaultGenerator().Reserve(random_blocks_));
}

}  // namespace infini_train
