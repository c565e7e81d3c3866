// Work on several streams of a GPU: what a backward pass and its hooks do there, copies that don't wait, and graphs.

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/activations.h"
#include "infini_train/include/autograd/elementwise.h"
#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/core/device_graph.h"
#include "infini_train/include/core/event.h"
#include "infini_train/include/core/stream.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"

#include "test/cuda/gpu.h"

namespace infini_train {
namespace {

using test::Gpu;
using Floats = std::vector<float>;

class StreamsOnGpu : public ::testing::Test {
protected:
    void SetUp() override { INFINI_TRAIN_NEEDS_GPU(); }
};

TensorPtr OnGpu(const Floats &values, bool requires_grad = false) {
    auto tensor = Tensor::FromVector(values)->To(Gpu());
    tensor->set_requires_grad(requires_grad);
    return tensor;
}

// Runs `body` on a stream that waits for the current one, which then waits for it.
template <typename Body>
auto OnSide(const Stream &side, Body &&body) {
    side.WaitFor(CurrentStream(Gpu()));
    auto result = [&] {
        const StreamGuard guard(side);
        return body();
    }();
    CurrentStream(Gpu()).WaitFor(side);
    return result;
}

TEST_F(StreamsOnGpu, BackwardGoesFromStreamToStream) {
    const Stream side(Gpu());
    const auto x = OnGpu({1, 2, 3}, true), w = OnGpu({2, 2, 2}, true);
    const auto a = x->Mul(w);
    const auto b = OnSide(side, [&] { return a->Square()->Mul(x); });  // w^2 x^3, on the side
    const auto loss = b->Add(a)->Sum();                                // + w x
    loss->Backward();
    // At once, without a word of synchronisation: 3 w^2 x^2 + w and 2 w x^3 + x.
    EXPECT_EQ(x->grad()->ToVector<float>(), (Floats{14, 50, 110}));
    EXPECT_EQ(w->grad()->ToVector<float>(), (Floats{5, 34, 111}));
}

TEST_F(StreamsOnGpu, SeveralPassesAddUpAcrossStreams) {
    const Stream first(Gpu()), second(Gpu());
    const auto x = OnGpu({3}, true);
    for (int i = 0; i < 3; ++i) {
        const auto a = OnSide(first, [&] { return x->Square(); });
        const auto b = OnSide(second, [&] { return x->Mul(a); });
        OnSide(i % 2 == 0 ? first : second, [&] {
            a->Add(b)->Sum()->Backward();  // 2 x + 3 x^2
            return 0;
        });
    }
    EXPECT_EQ(x->grad()->ToVector<float>(), (Floats{99}));
}

TEST_F(StreamsOnGpu, GradOfWhatASideStreamMade) {
    const Stream side(Gpu());
    const auto x = OnGpu({1, 2}, true);
    const auto y = OnSide(side, [&] { return x->Square(); });
    const auto z = OnSide(side, [&] { return y->Square()->Sum(); });
    // Nothing of this first pass comes to the caller's stream by itself.
    EXPECT_EQ(autograd::Grad({z}, {y}, {}, /*retain_graph=*/true)[0]->ToVector<float>(), (Floats{2, 8}));
    const TensorList grads = autograd::Grad({z}, {y, x});
    EXPECT_EQ(grads[0]->ToVector<float>(), (Floats{2, 8}));
    EXPECT_EQ(grads[1]->ToVector<float>(), (Floats{4, 32}));
}

// Hooks run on the stream of their function, those of leaves on the caller's.
TEST_F(StreamsOnGpu, HooksRunOnTheStreamOfTheirTensor) {
    const Stream forward(Gpu()), backward(Gpu());
    const auto x = OnGpu({1, 2}, true);
    const auto square = std::make_shared<autograd::Square>();
    std::vector<std::pair<std::string, Stream>> seen;
    const auto note = [&](const char *what) { seen.emplace_back(what, CurrentStream(Gpu())); };
    square->RegisterForwardPreHook([&](auto *, const auto &) { note("forward"); });
    square->RegisterBackwardPreHook([&](auto *, const auto &) { note("pre"); });
    square->RegisterBackwardPostHook([&](auto *, const auto &, const auto &) { note("post"); });
    x->RegisterHook([&](const TensorPtr &) { note("leaf"); });
    x->RegisterPostAccumulateGradHook([&](const TensorPtr &) { note("accumulated"); });
    const auto y = OnSide(forward, [&] {
        auto output = square->Apply({x})[0];
        output->RegisterHook([&](const TensorPtr &) { note("output"); });
        return output;
    });
    OnSide(backward, [&] {
        y->Sum()->Backward();
        return 0;
    });
    const std::vector<std::pair<std::string, Stream>> expected = {{"forward", forward}, {"output", forward},
                                                                  {"pre", forward},     {"post", forward},
                                                                  {"leaf", backward},   {"accumulated", backward}};
    EXPECT_EQ(seen, expected);
    EXPECT_EQ(CurrentStream(Gpu()), DefaultStream(Gpu()));
}

TEST_F(StreamsOnGpu, AHookMayQueueWork) {
    const Stream side(Gpu());
    const auto x = OnGpu({1, 2}, true);
    const auto y = OnSide(side, [&] { return x->Square(); });
    y->RegisterHook([](const TensorPtr &gradient) { return gradient->Mul(10); });
    x->RegisterHook([](const TensorPtr &gradient) { return gradient->Add(1); });
    y->Sum()->Backward();
    EXPECT_EQ(x->grad()->ToVector<float>(), (Floats{21, 41}));
}

TEST_F(StreamsOnGpu, APassThatThrowsLeavesTheStreamAsItWas) {
    const Stream side(Gpu());
    const auto x = OnGpu({1, 2}, true);
    const auto y = OnSide(side, [&] { return x->Square(); });
    y->RegisterHook([](const TensorPtr &) { throw ValueError("no"); });
    EXPECT_THROW(y->Sum()->Backward(), ValueError);
    EXPECT_EQ(CurrentStream(Gpu()), DefaultStream(Gpu()));
}

TEST_F(StreamsOnGpu, GradientsGoFromDeviceToDevice) {
    const Device other(DeviceType::kCUDA, 1);
    if (!HasDevice(other)) {
        GTEST_SKIP() << "there is one GPU only";
    }
    const auto x = OnGpu({1, 2, 3}, true);
    const auto there = x->Square()->To(other);
    EXPECT_EQ(there->GetDevice(), other);
    const auto y = there->Mul(there)->To(Device())->Mul(2)->To(Gpu());  // 2 x^4, by way of all three
    y->Add(x)->Sum()->Backward();
    EXPECT_EQ(x->grad()->GetDevice(), Gpu());
    EXPECT_EQ(x->grad()->ToVector<float>(), (Floats{9, 65, 217}));
    EXPECT_THROW(x->Add(there), DeviceError);
}

TEST_F(StreamsOnGpu, PinnedTensorsCopyWithoutWaiting) {
    const auto x = Tensor::Arange(0, 1000, 1, DataType::kFLOAT32);
    EXPECT_FALSE(x->IsPinned());
    auto pinned = x->PinMemory();
    EXPECT_TRUE(pinned->IsPinned());
    EXPECT_EQ(pinned->PinMemory(), pinned);
    EXPECT_EQ(pinned->ToVector<float>(), x->ToVector<float>());
    const auto on_gpu = pinned->To(Gpu(), /*non_blocking=*/true);
    pinned = nullptr;  // its memory waits for the copy
    const auto other = Tensor::Full({1000}, -1)->PinMemory();
    const auto back = on_gpu->Add(1)->To(Device(), /*non_blocking=*/true);
    EXPECT_TRUE(back->IsPinned());
    CurrentStream(Gpu()).Synchronize();
    EXPECT_EQ(back->ToVector<float>(), x->Add(1)->ToVector<float>());
    EXPECT_THROW(on_gpu->PinMemory(), DeviceError);
    EXPECT_THROW(x->RecordUse(CurrentStream(Gpu())), DeviceError);
}

TEST_F(StreamsOnGpu, MemoryInUseElsewhereIsNotGivenAway) {
    const Stream side(Gpu());
    auto x = OnGpu(Floats(1000, 3));
    side.WaitFor(CurrentStream(Gpu()));
    TensorPtr y;
    {
        const StreamGuard guard(side);
        y = x->Mul(2);
    }
    x->RecordUse(side);
    x = nullptr;
    const auto fresh = Tensor::Full({1000}, 7, DataType::kFLOAT32, Gpu());  // must not lie where x is still read
    side.Synchronize();
    EXPECT_EQ(y->ToVector<float>(), Floats(1000, 6));
    EXPECT_EQ(fresh->ToVector<float>(), Floats(1000, 7));
}

TEST_F(StreamsOnGpu, EventsTakeTimes) {
    Event start(/*timing=*/true), end(/*timing=*/true);
    start.Record(Gpu());
    const auto x = OnGpu({1, 2})->Exp();
    end.Record(Gpu());
    EXPECT_GE(start.ElapsedMilliseconds(end), 0.0);
    EXPECT_TRUE(end.Query());
}

// ---- Graphs ---------------------------------------------------------------------------------------------------------

// One step's forward and backward, with dropout.
struct Net {
    Net()
        : layer(std::make_shared<nn::Linear>(4, 3, true, Gpu())), x(Tensor::Empty({2, 4}, DataType::kFLOAT32, Gpu())) {}

    void Step() {
        loss = nn::function::Dropout((*layer)({x})[0], 0.5)->Square()->Sum();
        loss->Backward();
    }
    void Feed(float value) { x->Fill_(value); }
    Floats Gradient() const { return layer->Parameters()[0]->grad()->ToVector<float>(); }

    std::shared_ptr<nn::Linear> layer;
    TensorPtr x, loss;
};

TEST_F(StreamsOnGpu, AGraphDoesWhatItsBodyWould) {
    // Without a graph: gradients add up over the steps, each of which drops others.
    ManualSeed(5);
    Net plain;
    std::vector<Floats> losses, gradients;
    for (int i = 0; i < 4; ++i) {
        plain.Feed(static_cast<float>(i + 1));
        plain.Step();
        losses.push_back(plain.loss->ToVector<float>());
        gradients.push_back(plain.Gradient());
    }
    ManualSeed(5);
    Net net;
    net.Feed(1);
    net.Step();
    EXPECT_EQ(net.Gradient(), gradients[0]);
    DeviceGraph graph(Gpu());
    EXPECT_THROW(graph.Replay(), ValueError);
    net.Feed(2);
    graph.Capture([&] { net.Step(); });
    EXPECT_EQ(net.Gradient(), gradients[0]) << "nothing has run yet";
    for (int i = 1; i < 4; ++i) {
        net.Feed(static_cast<float>(i + 1));
        graph.Replay();
        EXPECT_EQ(net.loss->ToVector<float>(), losses[static_cast<size_t>(i)]);
        EXPECT_EQ(net.Gradient(), gradients[static_cast<size_t>(i)]);
    }
}

TEST_F(StreamsOnGpu, AGraphKeepsItsMemory) {
    auto x = OnGpu({1, 2, 3});
    DeviceGraph graph(Gpu());
    TensorPtr y;
    graph.Capture([&] { y = x->Mul(2)->Add(1); });
    // What others allocate meanwhile must not lie where the graph's own tensors do.
    const auto others = Tensor::Full({3}, 9, DataType::kFLOAT32, Gpu());
    GetAllocator(Gpu()).ReleaseCached();
    const auto more = Tensor::Full({3}, 8, DataType::kFLOAT32, Gpu());
    graph.Replay();
    EXPECT_EQ(y->ToVector<float>(), (Floats{3, 5, 7}));
    EXPECT_EQ(others->ToVector<float>(), Floats(3, 9));
    EXPECT_EQ(more->ToVector<float>(), Floats(3, 8));
    graph.Capture([&] { y = x->Square(); });
    graph.Replay();
    EXPECT_EQ(y->ToVector<float>(), (Floats{1, 4, 9}));
}

TEST_F(StreamsOnGpu, AGraphRefusesWhatItCantDo) {
    const auto x = OnGpu({1, 2, 3}, true);
    x->Square()->Sum()->Backward();
    optimizers::SGD sgd({x}, 0.1F);
    DeviceGraph graph(Gpu());
    EXPECT_THROW(DeviceGraph{Device()}, DeviceError);
    EXPECT_THROW(graph.Capture([&] { (void)x->Detach()->Sum()->Item(); }), CudaError);
    EXPECT_FALSE(graph.IsCaptured());
    EXPECT_THROW(graph.Capture([&] { sgd.Step(); }), ValueError);
    EXPECT_THROW(graph.Capture([&] { graph.Capture([] {}); }), ValueError);
    EXPECT_THROW(graph.Replay(), ValueError);
    EXPECT_FALSE(DeviceGraph::IsCapturing());
    // And goes on as if nothing had been.
    TensorPtr y;
    graph.Capture([&] { y = x->Detach()->Mul(3); });
    graph.Replay();
    EXPECT_EQ(y->ToVector<float>(), (Floats{3, 6, 9}));
}

}  // namespace
}  // namespace infini_train
