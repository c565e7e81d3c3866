// What functions save for the backward pass: hooks that pack it, guards, and changes in place that are noticed.

#include "infini_train/include/autograd/saved_tensor.h"

#include <any>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/core/allocator.h"
#include "infini_train/include/core/device_backend.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using autograd::DisableSavedTensorHooksGuard;
using autograd::SavedTensorHooksGuard;
using autograd::SaveOnCpu;
using test::Contains;
using test::Floats;
using test::Leaf;
using test::Of;
using test::Thrown;
using test::Values;

std::any Keep(const TensorPtr &tensor) {
    return tensor;
}
TensorPtr GiveBack(const std::any &packed) {
    return std::any_cast<TensorPtr>(packed);
}

// ---- Hooks ----------------------------------------------------------------------------------------------------------

TEST(SavedTensors, PackAtSaveUnpackAtUseInnermostOnly) {
    auto x = Leaf(3);
    int packed = 0, unpacked = 0, outer = 0;
    TensorPtr y;
    {
        SavedTensorHooksGuard outer_guard(
            [&](const TensorPtr &t) {
                ++outer;
                return Keep(t);
            },
            GiveBack);
        SavedTensorHooksGuard guard(
            [&](const TensorPtr &t) {
                ++packed;
                EXPECT_FALSE(t->requires_grad());
                return std::any(t->ToVector<float>());
            },
            [&](const std::any &a) {
                ++unpacked;
                return Tensor::FromVector(std::any_cast<std::vector<float>>(a), std::vector<int64_t>{});
            });
        y = x->Square();
    }
    EXPECT_EQ(packed, 1);
    EXPECT_EQ(unpacked, 0);
    auto g = autograd::Grad({y}, {x}, {}, true, /*create_graph=*/true)[0];
    EXPECT_EQ(unpacked, 1);
    EXPECT_EQ(Values(g), (Floats{6}));
    EXPECT_EQ(Values(autograd::Grad({g}, {x})[0]), (Floats{2}));  // the unpacked tensor is still x to the graph
    EXPECT_EQ(unpacked, 1);                                       // the second derivative doesn't pass y again
    y->Backward();
    EXPECT_EQ(unpacked, 2);
    EXPECT_EQ(outer, 0);
}

TEST(SavedTensors, NothingIsPackedUnderNoGradNorForWhatIsNotRecorded) {
    int packed = 0;
    SavedTensorHooksGuard guard(
        [&](const TensorPtr &t) {
            ++packed;
            return Keep(t);
        },
        GiveBack);
    auto plain = Of({3});
    plain->Square();
    {
        const autograd::NoGradGuard no_grad;
        Leaf(3)->Square();
    }
    EXPECT_EQ(packed, 0);
    Leaf(3)->Square();
    EXPECT_EQ(packed, 1);
}

// pytorch#61957
TEST(SavedTensors, HooksBelongToTheirThread) {
    int packed = 0;
    SavedTensorHooksGuard guard(
        [&](const TensorPtr &t) {
            ++packed;
            return Keep(t);
        },
        GiveBack);
    std::thread([] {
        auto x = Leaf(3);
        x->Square()->Backward();
        EXPECT_EQ(Values(x->grad()), (Floats{6}));
    }).join();
    EXPECT_EQ(packed, 0);
    Leaf(3)->Square();
    EXPECT_EQ(packed, 1);
}

TEST(SavedTensors, ThrowingHooksAreNamedAndTheGuardEndsOnUnwinding) {
    auto x = Leaf(3);
    std::string text;
    try {
        SavedTensorHooksGuard guard([](const TensorPtr &) -> std::any { throw std::runtime_error("disk full"); },
                                    GiveBack);
        x->Square();
    } catch (const std::runtime_error &error) {
        text = error.what();
    }
    EXPECT_TRUE(Contains(text, "disk full") && Contains(text, "pack hook for Square")) << text;
    TensorPtr y;
    bool fails = true;
    {
        SavedTensorHooksGuard guard(Keep, [&](const std::any &a) {
            if (fails) {
                throw ValueError("not there");
            }
            return GiveBack(a);
        });
        y = x->Square();
    }
    text = Thrown<ValueError>([&] { y->Backward(); });
    EXPECT_TRUE(Contains(text, "not there") && Contains(text, "unpack hook for Square")) << text;
    EXPECT_EQ(x->grad(), nullptr);
    fails = false;
    y->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{6}));
}

TEST(SavedTensors, WhatHooksComputeIsNotPacked) {
    auto x = Leaf(3), w = Leaf(2);
    int packed = 0, unpacked = 0;
    TensorPtr y;
    {
        SavedTensorHooksGuard guard(
            [&](const TensorPtr &t) {
                ++packed;
                const autograd::EnableGradGuard grad;
                return std::any((t * w)->Detach());
            },
            [&](const std::any &a) {
                ++unpacked;
                const autograd::EnableGradGuard grad;
                return (GiveBack(a) / w)->Detach();
            });
        y = x->Square();
        y->Backward(nullptr, true);
    }
    EXPECT_EQ(packed, 1);
    EXPECT_EQ(unpacked, 1);
    EXPECT_EQ(Values(x->grad()), (Floats{6}));
}

// A plain tensor stays plain, whatever unpack gives.
TEST(SavedTensors, UnpackedTensorsBringNoGraphOfTheirOwn) {
    auto x = Leaf(3), w = Leaf(5);
    TensorPtr y;
    {
        SavedTensorHooksGuard guard(Keep, [&](const std::any &) { return w; });
        y = x * Tensor::FromScalar(5);
    }
    auto g = autograd::Grad({y}, {x}, {}, true, /*create_graph=*/true)[0];
    EXPECT_EQ(Values(g), (Floats{5}));
    EXPECT_FALSE(g->requires_grad());
}

// pytorch#189025
TEST(SavedTensors, PackThatKeepsItsInputLeaksNothing) {
    std::weak_ptr<autograd::Function> node;
    {
        auto x = Leaf(3);
        TensorPtr y;
        {
            SavedTensorHooksGuard guard(Keep, GiveBack);
            y = x->Exp();
        }
        node = y->grad_fn();
    }
    EXPECT_TRUE(node.expired());
}

// ---- Changes in place -----------------------------------------------------------------------------------------------

// pytorch#62717
TEST(SavedTensors, PackThatChangesItsInputIsAnError) {
    auto x = Leaf(3);
    SavedTensorHooksGuard guard(
        [](const TensorPtr &t) {
            t->Mul_(2);
            return Keep(t);
        },
        GiveBack);
    const auto text = Thrown<AutogradError>([&] { x->Square(); });
    EXPECT_TRUE(Contains(text, "Square: the pack hook changed in place")) << text;
}

// pytorch#62717
TEST(SavedTensors, PackMayChangeAClone) {
    auto x = Leaf(3);
    TensorPtr y;
    {
        SavedTensorHooksGuard guard([](const TensorPtr &t) { return std::any(t->Clone()->Mul_(2)); },
                                    [](const std::any &a) { return GiveBack(a) / 2; });
        y = x->Square();
    }
    y->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{6}));
}

TEST(SavedTensors, UnpackThatChangesWhatWasPackedIsAnError) {
    auto x = Leaf(3);
    TensorPtr y;
    {
        SavedTensorHooksGuard guard([](const TensorPtr &t) { return std::any(t->Clone()->Mul_(2)); },
                                    [](const std::any &a) { return GiveBack(a)->Div_(2); });
        y = x->Square();
    }
    const auto text = Thrown<AutogradError>([&] { y->Backward(); });
    EXPECT_TRUE(Contains(text, "Square: the unpack hook changed in place")) << text;
    EXPECT_EQ(x->grad(), nullptr);
}

TEST(SavedTensors, PackedTensorChangedSinceIsAnError) {
    struct Hidden {
        TensorPtr tensor;
    };
    const auto check = [](const std::function<std::any(const TensorPtr &)> &pack,
                          const std::function<TensorPtr(const std::any &)> &unpack, const TensorPtr &changed) {
        TensorPtr y;
        {
            SavedTensorHooksGuard guard(pack, unpack);
            y = Leaf(3)->Mul(changed);
        }
        changed->Add_(1);
        const auto text = Thrown<AutogradError>([&] { y->Backward(); });
        EXPECT_TRUE(Contains(text, "Mul: ") && Contains(text, "changed in place since")) << text;
    };
    // The saved tensor itself, known or hidden.
    check(Keep, GiveBack, Tensor::FromScalar(5));
    check([](const TensorPtr &t) { return std::any(Hidden{t}); },
          [](const std::any &a) { return std::any_cast<const Hidden &>(a).tensor; }, Tensor::FromScalar(5));
    // A copy.
    TensorList copies;
    auto x = Leaf(3);
    TensorPtr y;
    {
        SavedTensorHooksGuard guard(
            [&](const TensorPtr &t) {
                copies.push_back(t->Clone());
                return Keep(copies.back());
            },
            GiveBack);
        y = x->Square();
    }
    x->Detach()->Add_(1);  // the copy has the value of then
    y->Backward(nullptr, true);
    EXPECT_EQ(Values(x->grad()), (Floats{6}));
    copies[0]->Add_(1);
    const auto text = Thrown<AutogradError>([&] { y->Backward(); });
    EXPECT_TRUE(Contains(text, "Square: ") && Contains(text, "changed in place since")) << text;
}

TEST(SavedTensors, LeafGivenOtherDataIsAnError) {
    auto x = Leaf(3);
    auto y = x->Square();
    x->SetData(Tensor::FromScalar(4));
    const auto text = Thrown<AutogradError>([&] { y->Backward(); });
    EXPECT_TRUE(Contains(text, "Square: ") && Contains(text, "given other data since")) << text;
}

TEST(SavedTensors, WrongUnpackedTensorNamesOperatorAndBothSides) {
    const auto thrown = [](const TensorPtr &wrong) {
        auto x = Leaf({3, 4});
        TensorPtr y;
        {
            SavedTensorHooksGuard guard(Keep, [&](const std::any &) { return wrong; });
            y = x->Square();
        }
        const auto text = Thrown<AutogradError>([&] { y->Sum()->Backward(); });
        EXPECT_EQ(x->grad(), nullptr);
        EXPECT_TRUE(Contains(text, "Square: the unpack hook gave ")) << text;
        EXPECT_TRUE(Contains(text, "(2,), float32 on CPU was saved")) << text;
        return text;
    };
    EXPECT_TRUE(Contains(thrown(nullptr), "null"));
    EXPECT_TRUE(Contains(thrown(Of({1, 2, 3})), "(3,), float32 on CPU"));
    EXPECT_TRUE(Contains(thrown(Tensor::Ones({2}, DataType::kFLOAT64)), "(2,), float64 on CPU"));
}

// ---- Guards ---------------------------------------------------------------------------------------------------------

TEST(SavedTensors, DisabledHooksAreAnErrorWithTheMessage) {
    const auto hooks = [] { SavedTensorHooksGuard guard(Keep, GiveBack); };
    {
        const DisableSavedTensorHooksGuard outer("not here");
        const auto text = Thrown<AutogradError>(hooks);
        EXPECT_TRUE(Contains(text, "SavedTensorHooksGuard: ") && Contains(text, "not here")) << text;
        EXPECT_TRUE(Contains(Thrown<AutogradError>([] { SaveOnCpu guard; }), "not here"));
        {
            const DisableSavedTensorHooksGuard inner("nor here");
            EXPECT_TRUE(Contains(Thrown<AutogradError>(hooks), "nor here"));
        }
        EXPECT_TRUE(Contains(Thrown<AutogradError>(hooks), "not here"));
        std::thread([&] { hooks(); }).join();
        auto x = Leaf(3);
        x->Square()->Backward();
        EXPECT_EQ(Values(x->grad()), (Floats{6}));
    }
    hooks();
    const SavedTensorHooksGuard guard(Keep, GiveBack);
    const auto text = Thrown<AutogradError>([] { DisableSavedTensorHooksGuard disabled("too late"); });
    EXPECT_TRUE(Contains(text, "too late")) << text;
    hooks();
}

// On the CPU the guard copies nothing and a change in place is noticed as ever.
TEST(SaveOnCpuTest, KeepsWhatIsOnTheCpu) {
    auto x = Leaf({1, 2}), w = Leaf({3, 4});
    const auto loss = [&] { return (x * w)->Square()->Exp()->Sum(); };
    const auto live = [] { return GetAllocator(Device()).Stats().live; };
    const size_t start = live();
    auto plain = loss();
    const size_t without = live() - start;
    plain = nullptr;
    ASSERT_EQ(live(), start);
    {
        const SaveOnCpu guard;
        plain = loss();
    }
    EXPECT_EQ(live() - start, without);
    x->Detach()->Add_(1);
    EXPECT_TRUE(Contains(Thrown<AutogradError>([&] { plain->Backward(); }), "Mul: "));
}

// A device in the CPU's memory that counts its bytes.
class CountingAllocator : public Allocator {
public:
    void *Allocate(size_t bytes) override {
        stats_.live += bytes;
        return std::malloc(bytes + 1);
    }
    void Deallocate(void *data, size_t bytes) noexcept override {
        if (data != nullptr) {
            stats_.live -= bytes;
            std::free(data);
        }
    }
    MemoryStats Stats() const override { return stats_; }
    void ResetPeak() override {}
    void ReleaseCached() override {}
    void RestorePeak(size_t /*bytes*/) override {}

private:
    MemoryStats stats_;
};

class FakeBackend : public DeviceBackend {
public:
    int DeviceCount() const override { return 1; }
    int CurrentDevice() const override { return 0; }
    void SetCurrentDevice(int /*index*/) override {}
    Allocator &GetAllocator(int /*index*/) override { return allocator_; }
    Stream CurrentStream() const override { return {}; }
    void SetCurrentStream(Stream /*stream*/) override {}
    void Synchronize() override {}
    void Copy(void *destination, Device, const void *source, Device, size_t bytes) override {
        std::memcpy(destination, source, bytes);
    }

private:
    CountingAllocator allocator_;
};

// Saves its input and gives a copy of it; needs no kernels.
class CopySaved : public autograd::Function {
public:
    CopySaved(Floats *seen, Device *device) : Function("CopySaved"), seen_(seen), device_(device) {}
    TensorList Forward(const TensorList &inputs) override {
        return {inputs[0]->To(Device())->To(inputs[0]->GetDevice())};
    }
    void SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) override {
        ctx_.SaveForBackward(inputs);
    }
    TensorList Backward(const TensorList &grad_outputs) override {
        const auto saved = ctx_.GetSavedTensors()[0];
        *device_ = saved->GetDevice();
        *seen_ = Values(saved);
        return {grad_outputs[0]->To(Device())->To(*device_)};
    }

private:
    Floats *const seen_;
    Device *const device_;
};

TEST(SaveOnCpuTest, MovesWhatLiesOnAnotherDeviceAndBackAtUse) {
    if (!HasDevice(DeviceType::kCUDA)) {
        RegisterDeviceBackend(DeviceType::kCUDA, std::make_unique<FakeBackend>());
    }
    const Device device(DeviceType::kCUDA);
    const auto live = [&] { return GetAllocator(device).Stats().live; };
    Floats first_seen, second_seen;
    Device first_device, second_device;
    const auto first = std::make_shared<CopySaved>(&first_seen, &first_device);
    const auto second = std::make_shared<CopySaved>(&second_seen, &second_device);
    auto x = Of(Floats(1024, 3))->To(device)->RequiresGrad();
    const size_t one = live();
    TensorPtr y;
    {
        const SaveOnCpu guard;
        y = second->Apply(first->Apply({x}))[0];
    }
    EXPECT_EQ(live(), 2 * one);  // x, which first saved as it is, and y; not what second saved
    y->Backward(y->Detach());
    EXPECT_EQ(first_device, device);
    EXPECT_EQ(second_device, device);
    EXPECT_EQ(first_seen, Floats(1024, 3));
    EXPECT_EQ(second_seen, Floats(1024, 3));
    EXPECT_EQ(x->grad()->GetDevice(), device);

    // A tensor that comes back on another device.
    {
        const SavedTensorHooksGuard guard([](const TensorPtr &t) { return std::any(t->To(Device())); }, GiveBack);
        y = std::make_shared<CopySaved>(&first_seen, &first_device)->Apply({x})[0];
    }
    const auto text = Thrown<AutogradError>([&] { y->Backward(y->Detach()); });
    EXPECT_TRUE(
        Contains(text, "CopySaved: the unpack hook gave (1024,), float32 on CPU where (1024,), float32 on CUDA:0"))
        << text;
}

}  // namespace
}  // namespace infini_train
