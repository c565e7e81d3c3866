#include "infini_train/include/utils/profiler.h"

#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/checkpoint.h"
#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/core/allocator.h"
#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/nn/modules/loss.h"
#include "infini_train/include/optimizer.h"

#include "test/support/modules.h"
#include "test/support/tensors.h"

namespace infini_train::utils {
namespace {

using test::Contains;
using test::MakeModule;
using test::Thrown;

constexpr auto kForward = ProfilePhase::kForward;
constexpr auto kBackward = ProfilePhase::kBackward;

// The row of an operator; all zeros if there is none.
ProfileStats Op(const Profiler &profiler, const std::string &type, ProfilePhase phase) {
    for (const OperatorProfile &row : profiler.Operators()) {
        if (row.type == type && row.phase == phase) {
            return row.stats;
        }
    }
    return {};
}
ModuleProfile Of(const Profiler &profiler, const std::string &name) {
    for (const ModuleProfile &row : profiler.Modules()) {
        if (row.name == name) {
            return row;
        }
    }
    ADD_FAILURE() << "no module " << name;
    return {};
}

std::shared_ptr<nn::Sequential> Mlp() {
    return std::make_shared<nn::Sequential>(std::make_shared<nn::Linear>(4, 3), std::make_shared<nn::Relu>(),
                                            std::make_shared<nn::Linear>(3, 2));
}

// A batch of 5 through 4 -> 3 -> 2, all of it worked out by hand.
TEST(Profiler, CountsCallsFlopsAndBytes) {
    const auto net = Mlp();
    const auto x = Tensor::Ones({5, 4});
    Profiler profiler;
    (*net)({x})[0]->Sum()->Backward();
    profiler.Stop();

    const ProfileStats linear = Op(profiler, "Linear", kForward);
    EXPECT_EQ(linear.calls, 2);
    EXPECT_EQ(linear.flops, (2 * 5 * 4 * 3 + 15) + (2 * 5 * 3 * 2 + 10));
    EXPECT_EQ(linear.bytes, 4 * ((20 + 12 + 3 + 15) + (15 + 6 + 2 + 10)));
    EXPECT_GT(linear.total_ns, 0);
    EXPECT_EQ(linear.total_ns, linear.self_ns);
    // x requires no gradient: one product for the first layer, two for the second, and the sums over 5 rows.
    const ProfileStats back = Op(profiler, "Linear", kBackward);
    EXPECT_EQ(back.calls, 2);
    EXPECT_EQ(back.flops, (120 + 12) + (60 + 60 + 8));
    EXPECT_EQ(Op(profiler, "Relu", kForward).flops, 15);
    EXPECT_EQ(Op(profiler, "Relu", kBackward).flops, 15);
    EXPECT_EQ(Op(profiler, "Sum", kForward).flops, 9);
    EXPECT_EQ(Op(profiler, "Sum", kBackward).calls, 1);
    EXPECT_EQ(Op(profiler, "AccumulateGrad", kBackward).calls, 4);
    EXPECT_EQ(Op(profiler, "AccumulateGrad", kBackward).flops, 0);  // taken over, not added

    const ProfileTotals totals = profiler.Totals();
    EXPECT_EQ(totals.flops, linear.flops + back.flops + 15 + 15 + 9);
    EXPECT_TRUE(totals.uncounted.empty());
    EXPECT_EQ(totals.steps, 0);
    EXPECT_LE(totals.forward_ns + totals.backward_ns + totals.module_ns + totals.profiler_ns, totals.wall_ns);
}

TEST(Profiler, AccumulationCountsWhereItAdds) {
    const auto net = Mlp();
    (*net)({Tensor::Ones({5, 4})})[0]->Sum()->Backward();
    Profiler profiler;
    (*net)({Tensor::Ones({5, 4})})[0]->Sum()->Backward();
    const ProfileStats stats = Op(profiler, "AccumulateGrad", kBackward);
    EXPECT_EQ(stats.flops, 12 + 3 + 6 + 2);
    EXPECT_EQ(stats.bytes, 3 * 4 * 23);
}

TEST(Profiler, BackwardCountsForTheModuleOfTheForward) {
    const auto net = Mlp();
    Profiler profiler;
    (*net)({Tensor::Ones({5, 4})})[0]->Sum()->Backward();
    profiler.Stop();
    const ModuleProfile root = Of(profiler, "Sequential"), first = Of(profiler, "0 (Linear)"),
                        relu = Of(profiler, "1 (Relu)"), second = Of(profiler, "2 (Linear)");
    EXPECT_EQ(first.forward.flops, 135);
    EXPECT_EQ(first.backward.flops, 132);
    EXPECT_EQ(second.forward.flops, 70);
    EXPECT_EQ(second.backward.flops, 128);
    EXPECT_EQ(relu.backward.flops, 15);
    for (const ModuleProfile &row : {root, first, relu, second}) {
        EXPECT_EQ(row.forward.calls, 1) << row.name;
        EXPECT_EQ(row.backward.calls, 1) << row.name;
        EXPECT_GT(row.backward.total_ns, 0) << row.name;
    }
    // What is inside adds up, to the nanosecond; the Sum is in no module.
    EXPECT_EQ(root.forward.flops, 135 + 15 + 70);
    EXPECT_EQ(root.backward.flops, 132 + 15 + 128);
    EXPECT_EQ(root.forward.total_ns,
              root.forward.self_ns + first.forward.total_ns + relu.forward.total_ns + second.forward.total_ns);
    EXPECT_EQ(root.backward.total_ns, first.backward.total_ns + relu.backward.total_ns + second.backward.total_ns);
    EXPECT_EQ(root.backward.self_ns, 0);
    EXPECT_EQ(first.forward.total_ns, first.forward.self_ns);
    EXPECT_EQ(first.path, "0");
    EXPECT_EQ(first.type, "Linear");
}

TEST(Profiler, NestedModulesAndOnesThatAreBelowThemselves) {
    const auto inner = MakeModule([](const TensorList &inputs) { return TensorList{inputs[0]->Exp()}; }, "Inner");
    const auto middle = MakeModule(
        [&](const TensorList &inputs) { return TensorList{(*inner)((*inner)(inputs))[0]->Neg()}; }, "Middle");
    middle->RegisterModule("inner", inner);
    const auto outer = MakeModule([&](const TensorList &inputs) { return (*middle)({inputs[0]->Square()}); }, "Outer");
    outer->RegisterModule("middle", middle);
    // Calls itself once: its time counts once.
    std::shared_ptr<test::Lambda> again;
    again = MakeModule(
        [&](const TensorList &inputs) {
            return inputs[0]->NumDims() > 1 ? (*again)({inputs[0]->Flatten()}) : TensorList{inputs[0]->Exp()};
        },
        "Again");
    Profiler profiler;
    (*outer)({test::Leaf({1, 2, 3})});
    (*again)({Tensor::Ones({2, 2})});
    profiler.Stop();
    const auto row_outer = Of(profiler, "Outer").forward, row_middle = Of(profiler, "middle (Middle)").forward,
               row_inner = Of(profiler, "middle.inner (Inner)").forward, row_again = Of(profiler, "Again").forward;
    EXPECT_EQ(row_inner.calls, 2);
    EXPECT_EQ(row_inner.flops, 6);
    EXPECT_EQ(row_middle.flops, 9);
    EXPECT_EQ(row_outer.flops, 12);
    EXPECT_EQ(row_middle.total_ns, row_middle.self_ns + row_inner.total_ns);
    EXPECT_EQ(row_outer.total_ns, row_outer.self_ns + row_middle.total_ns);
    EXPECT_EQ(row_again.calls, 2);
    EXPECT_EQ(row_again.flops, 4);
    EXPECT_EQ(row_again.total_ns, row_again.self_ns);
}

// Made of operators, and without costs of its own.
class Cube : public autograd::Function {
public:
    Cube() : Function("ProfilerTestCube") {}
    TensorList Forward(const TensorList &inputs) override { return {inputs[0]->Square()->Mul(inputs[0])}; }
    void SetupContext(const TensorList &inputs, const TensorList &) override { ctx_.SaveForBackward(inputs); }
    TensorList Backward(const TensorList &grads) override {
        return {grads[0]->Mul(ctx_.GetSavedTensors()[0]->Square())->Mul(3)};
    }
};

TEST(Profiler, FunctionsMadeOfOperatorsAreTheirSum) {
    const auto x = test::Leaf({1, 2, 3, 4});
    Profiler profiler;
    std::make_shared<Cube>()->Apply({x})[0]->Sum()->Backward();
    profiler.Stop();
    const ProfileStats cube = Op(profiler, "ProfilerTestCube", kForward);
    EXPECT_EQ(cube.calls, 1);
    EXPECT_EQ(cube.flops, 0);
    EXPECT_EQ(cube.total_ns,
              cube.self_ns + Op(profiler, "Square", kForward).total_ns + Op(profiler, "Mul", kForward).total_ns);
    EXPECT_EQ(Op(profiler, "Square", kForward).flops, 4);
    EXPECT_EQ(Op(profiler, "Mul", kForward).flops, 4);
    // What its Backward applies belongs to the backward pass.
    EXPECT_EQ(Op(profiler, "Square", kBackward).calls, 1);
    EXPECT_EQ(Op(profiler, "Mul", kBackward).flops, 4);
    EXPECT_EQ(Op(profiler, "MulScalar", kBackward).flops, 4);
    EXPECT_TRUE(profiler.Totals().uncounted.empty());
}

// A checkpointed module runs again in the backward pass, as a part of that.
TEST(Profiler, CheckpointsAreTheSumOfWhatTheyCall) {
    const auto net = Mlp();
    const auto x = Tensor::Ones({5, 4})->RequiresGrad();
    Profiler profiler;
    autograd::Checkpoint([&](const TensorList &inputs) { return (*net)(inputs); }, {x})[0]->Sum()->Backward();
    profiler.Stop();
    EXPECT_EQ(Op(profiler, "Linear", kForward).flops, 205);
    EXPECT_GE(Op(profiler, "Linear", kBackward).flops, 260 + 120);  // the gradient of x too, and the second forward
    EXPECT_EQ(Of(profiler, "Sequential").forward.calls, 1);
    EXPECT_TRUE(profiler.Totals().uncounted.empty());
}

TEST(Profiler, PartsOfAKnownOperatorDontCountTwice) {
    const auto x = test::Leaf({1, 2, 3}), y = test::Leaf({4, 5, 6});
    Profiler profiler;
    x->Mul(y)->Sum()->Backward();
    profiler.Stop();
    // The two products of Mul's backward are Mul functions themselves.
    EXPECT_EQ(Op(profiler, "Mul", kForward).calls, 1);
    EXPECT_EQ(Op(profiler, "Mul", kBackward).calls, 1);
    EXPECT_EQ(Op(profiler, "Mul", kBackward).flops, 6);
    EXPECT_EQ(Op(profiler, "Mul", kBackward).total_ns, Op(profiler, "Mul", kBackward).self_ns);
}

TEST(Profiler, SecondDerivatives) {
    const auto x = test::Leaf({1, 2, 3});
    Profiler profiler;
    const auto y = x->Square()->Sum();
    y->Backward(nullptr, /*retain_graph=*/true, /*create_graph=*/true);
    const ProfileStats first = Op(profiler, "Square", kBackward);
    EXPECT_EQ(first.calls, 1);
    EXPECT_EQ(first.flops, 6);
    x->grad()->Sum()->Backward();
    // d/dx sum(2 g x) = 2 g: what Square's backward recorded is differentiated as functions of their own.
    profiler.Stop();
    EXPECT_EQ(Op(profiler, "Square", kForward).calls, 1);
    EXPECT_GT(profiler.Totals().backward_ns, first.total_ns);
    EXPECT_TRUE(profiler.Totals().uncounted.empty());
}

TEST(Profiler, TwoPassesThroughOneGraph) {
    const auto net = Mlp();
    Profiler profiler;
    const auto loss = (*net)({Tensor::Ones({5, 4})})[0]->Sum();
    loss->Backward(nullptr, /*retain_graph=*/true);
    loss->Backward();
    EXPECT_EQ(Of(profiler, "Sequential").forward.calls, 1);
    EXPECT_EQ(Of(profiler, "Sequential").backward.calls, 2);
    EXPECT_EQ(Of(profiler, "0 (Linear)").backward.flops, 2 * 132 + 15);  // the second accumulation adds
}

TEST(Profiler, PairsUpWhenSomethingThrows) {
    const auto bad = MakeModule(
        [](const TensorList &inputs) -> TensorList {
            inputs[0]->Exp();
            throw std::runtime_error("no");
        },
        "Bad");
    const auto net = MakeModule(
        [&](const TensorList &inputs) {
            try {
                (*bad)(inputs);
            } catch (const std::runtime_error &) {
            }
            return TensorList{inputs[0]->Neg()};
        },
        "Net");
    net->RegisterModule("bad", bad);
    const auto x = test::Leaf({1, 2});
    Profiler profiler;
    (*net)({x});
    EXPECT_THROW((*bad)({x}), std::runtime_error);
    EXPECT_THROW(x->Matmul(test::Of({1, 2, 3})), ShapeError);
    auto y = x->Square();
    y->RegisterHook([](const TensorPtr &) { throw std::runtime_error("backward"); });
    auto z = x->Exp();
    z->grad_fn()->RegisterBackwardPreHook(
        [](autograd::Function *, const TensorList &) { throw std::runtime_error("b"); });
    EXPECT_THROW(y->Sum()->Backward(), std::runtime_error);
    EXPECT_THROW(z->Sum()->Backward(), std::runtime_error);
    (*net)({x})[0]->Sum()->Backward();
    profiler.Stop();
    const auto row_net = Of(profiler, "Net"), row_bad = Of(profiler, "bad (Bad)");
    EXPECT_EQ(row_net.forward.calls, 2);
    EXPECT_EQ(row_bad.forward.calls, 3);
    EXPECT_EQ(row_bad.forward.flops, 3 * 2);
    EXPECT_EQ(Op(profiler, "Matmul", kForward).calls, 1);
    EXPECT_EQ(Op(profiler, "Matmul", kForward).flops, 0);  // nothing came of it
    EXPECT_EQ(Op(profiler, "Exp", kBackward).calls, 1);
    EXPECT_EQ(row_net.backward.calls, 1);
}

TEST(Profiler, OneModelOnly) {
    const auto watched = Mlp(), other = Mlp();
    Profiler profiler(*watched);
    (*other)({Tensor::Ones({5, 4})})[0]->Sum()->Backward();
    EXPECT_TRUE(profiler.Operators().empty());
    (*watched)({Tensor::Ones({5, 4})})[0]->Sum()->Backward();
    const auto part = watched->module("0");
    (*part)({Tensor::Ones({1, 4})});
    profiler.Stop();
    EXPECT_EQ(profiler.Modules().size(), 4U);
    EXPECT_EQ(Of(profiler, "0 (Linear)").forward.calls, 2);
    EXPECT_EQ(Op(profiler, "Sum", kForward).calls, 0);
    EXPECT_EQ(Op(profiler, "Sum", kBackward).calls, 0);
    EXPECT_EQ(Op(profiler, "Linear", kBackward).flops, 260);
    EXPECT_EQ(Op(profiler, "AccumulateGrad", kBackward).calls, 4);
}

TEST(Profiler, StepsMayBeSkippedAndLimited) {
    const auto x = test::Of({1, 2});
    ProfilerOptions options;
    options.skip_steps = 1;
    options.max_steps = 2;
    Profiler profiler(options);
    std::vector<bool> recording;
    for (int step = 0; step < 5; ++step) {
        recording.push_back(profiler.IsRecording());
        x->Exp();
        profiler.Step();
    }
    EXPECT_EQ(recording, (std::vector<bool>{false, true, true, false, false}));
    EXPECT_EQ(profiler.Totals().steps, 2);
    EXPECT_EQ(Op(profiler, "Exp", kForward).calls, 2);
    ProfileTableOptions table;
    table.per_step = true;
    EXPECT_TRUE(Contains(profiler.OperatorTable(table), "| Exp      | forward |     1 |"));
}

TEST(Profiler, ThreadsAreAddedUp) {
    const auto net = Mlp();
    Profiler profiler;
    constexpr int kThreads = 4, kCalls = 25;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([&] {
            for (int call = 0; call < kCalls; ++call) {
                (*net)({Tensor::Ones({5, 4})})[0]->Sum()->Backward();
                profiler.Totals();
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    profiler.Stop();
    EXPECT_EQ(Op(profiler, "Linear", kForward).flops, kThreads * kCalls * 205);
    EXPECT_EQ(Op(profiler, "Linear", kBackward).flops, kThreads * kCalls * 260);
    EXPECT_EQ(Of(profiler, "Sequential").backward.calls, kThreads * kCalls);
    EXPECT_EQ(Of(profiler, "Sequential").forward.calls, kThreads * kCalls);
}

TEST(Profiler, StopsWhileOtherThreadsCompute) {
    const auto net = Mlp();
    std::atomic<bool> stop{false};
    std::thread worker([&] {
        while (!stop) {
            (*net)({Tensor::Ones({5, 4})})[0]->Sum()->Backward();
        }
    });
    for (int round = 0; round < 20; ++round) {
        Profiler profiler;
        Profiler overlapping(*net);
        std::this_thread::yield();
        profiler.Stop();
        profiler.ToString();
    }
    stop = true;
    worker.join();
}

TEST(Profiler, ModulesOfEqualNamesAreToldApartAndPassingOnesArentListedAgain) {
    const auto a = Mlp(), b = Mlp();
    Profiler profiler;
    (*a)({Tensor::Ones({5, 4})});
    (*b)({Tensor::Ones({1, 4})});
    for (int step = 0; step < 3; ++step) {
        (*std::make_shared<nn::CrossEntropyLoss>())({Tensor::Ones({2, 3}), Tensor::FromVector<int64_t>({0, 1})});
    }
    EXPECT_EQ(profiler.Modules().size(), 9U);
    EXPECT_EQ(Of(profiler, "Sequential").forward.flops, 220);
    EXPECT_EQ(Of(profiler, "Sequential #2").forward.flops, 44);
    EXPECT_EQ(Of(profiler, "CrossEntropyLoss").forward.calls, 3);
}

TEST(Profiler, MayBeginAndEndInTheMiddle) {
    std::optional<Profiler> profiler;
    const auto inner = MakeModule([](const TensorList &inputs) { return TensorList{inputs[0]->Exp()}; }, "Inner");
    const auto outer = MakeModule(
        [&](const TensorList &inputs) {
            profiler.emplace();
            return (*inner)({(*inner)(inputs)});
        },
        "Outer");
    (*outer)({test::Of({1})});
    EXPECT_EQ(Of(*profiler, "Inner").forward.calls, 2);
    EXPECT_EQ(profiler->Modules().size(), 1U);
    const auto ends = MakeModule(
        [&](const TensorList &inputs) {
            (*inner)(inputs);
            profiler->Stop();
            return (*inner)(inputs);
        },
        "Ends");
    (*ends)({test::Of({1})});
    EXPECT_EQ(Of(*profiler, "Inner").forward.calls, 3);
    EXPECT_EQ(Of(*profiler, "Ends").forward.calls, 0);  // left out: it hadn't ended
}

TEST(Profiler, OptimizersAreSeen) {
    const auto net = Mlp();
    optimizers::SGD sgd(net->Parameters(), 0.1);
    (*net)({Tensor::Ones({5, 4})})[0]->Sum()->Backward();
    Profiler profiler;
    sgd.Step();
    EXPECT_EQ(Op(profiler, "SGD.Step", ProfilePhase::kOptimizer).calls, 1);
    EXPECT_GT(profiler.Totals().optimizer_ns, 0);
    EXPECT_TRUE(profiler.Totals().uncounted.empty());
}

TEST(Profiler, MemoryThatAnOperatorNeeds) {
    constexpr int64_t kBytes = 4 << 20;
    const auto x = Tensor::Ones({kBytes / 4});
    Allocator &allocator = GetAllocator(Device());
    { const auto big = Tensor::Empty({16 << 20}); }
    const size_t peak_before = allocator.Stats().peak;
    {
        Profiler profiler;
        const size_t live = allocator.Stats().live;
        const auto net =
            MakeModule([](const TensorList &inputs) { return TensorList{inputs[0]->Exp()->Neg()}; }, "Net");
        autograd::NoGradGuard no_grad;
        (*net)({x});
        const ProfileStats exp = Op(profiler, "Exp", kForward), module = Of(profiler, "Net").forward;
        EXPECT_GE(exp.growth_bytes, kBytes);  // its output
        EXPECT_LE(exp.growth_bytes, kBytes + kBytes / 4);
        EXPECT_GE(module.growth_bytes, 2 * kBytes);  // both
        EXPECT_LE(module.growth_bytes, 2 * (kBytes + kBytes / 4));
        EXPECT_GE(module.peak_bytes, static_cast<int64_t>(live) + 2 * kBytes);
        EXPECT_EQ(profiler.Totals().peak_bytes, module.peak_bytes);
        Profiler overlapping;
        x->Exp();
        EXPECT_GE(Op(profiler, "Exp", kForward).growth_bytes, kBytes);
        EXPECT_GE(Op(overlapping, "Exp", kForward).growth_bytes, kBytes);
    }
    EXPECT_GE(allocator.Stats().peak, peak_before);  // as if nobody had reset it
}

TEST(Profiler, MemoryThatAModulesBackwardNeeds) {
    const auto net = std::make_shared<nn::Sequential>(std::make_shared<nn::Linear>(512, 512));
    Profiler profiler;
    (*net)({Tensor::Ones({1, 512})})[0]->Sum()->Backward();
    constexpr int64_t kWeight = 512 * 512 * 4;
    for (const char *name : {"Sequential", "0 (Linear)"}) {
        EXPECT_GE(Of(profiler, name).backward.growth_bytes, kWeight) << name;
        EXPECT_LT(Of(profiler, name).forward.growth_bytes, kWeight) << name;
    }
}

TEST(Profiler, Tables) {
    const auto net = Mlp();
    Profiler profiler;
    (*net)({Tensor::Ones({5, 4})})[0]->Sum()->Backward();
    profiler.Step();
    profiler.Stop();
    ProfileTableOptions options;
    options.order = ProfileOrder::kName;
    const std::string operators = profiler.OperatorTable(options);
    EXPECT_TRUE(Contains(operators, "| operator       | phase    | calls |"));
    EXPECT_LT(operators.find("AccumulateGrad"), operators.find("Linear"));
    EXPECT_LT(operators.find("Linear         | forward"), operators.find("Linear         | backward"));
    options.order = ProfileOrder::kFlops;
    options.max_rows = 1;
    const std::string modules = profiler.ModuleTable(options);
    EXPECT_TRUE(Contains(modules, "| Sequential |     1 |"));
    EXPECT_TRUE(Contains(modules, "3 more rows"));
    const std::string all = profiler.ToString();
    EXPECT_EQ(all.find("1 step in "), 0U);
    EXPECT_TRUE(Contains(all, "504 FLOPs"));  // 205 + 260 + 15 + 15 + 9
    // Every line of a table is as wide as the first.
    const size_t width = operators.find('\n');
    for (size_t at = 0; at < operators.size(); at += width + 1) {
        EXPECT_EQ(operators.find('\n', at), at + width);
    }
}

}  // namespace
}  // namespace infini_train::utils
