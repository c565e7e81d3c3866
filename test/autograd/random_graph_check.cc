// How a graph is put together, and what is checked of it.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/common/error.h"

#include "test/autograd/random_graph.h"

namespace infini_train::test {

void RandomGraph::Build() {
    const size_t leaves = 1 + Below(3);
    for (size_t i = 0; i < leaves + 1; ++i) {
        AddLeaf(i < leaves);
    }
    const size_t steps = 3 + Below(kMaxSteps - 3);
    for (size_t tries = 0; tries < 20 * kMaxSteps && steps_taken_ < steps; ++tries) {
        steps_taken_ += static_cast<size_t>(TakeStep());
        if (Chance(0.15)) {
            RegisterWatch();
        }
        if (Chance(0.05)) {
            Retain();
        }
        if (Chance(0.03)) {
            Drop();
        }
    }
}

bool RandomGraph::Check() {
    for (const Shadow &shadow : shadows_) {
        ExpectNear(
            shadow.tensor, shadow.cells.size(), [&](size_t i) { return shadow.At(i); }, 1, "a value");
        EXPECT_EQ(shadow.tensor->requires_grad(), shadow.InGraph());
    }
    ChooseRoots();
    try {
        for (int i = 0; i < 2; ++i) {
            CheckGrad();
        }
        CheckBackward(1, /*retain_graph=*/true);
        CheckBackward(2, /*retain_graph=*/false);
    } catch (const AutogradError &error) {
        EXPECT_TRUE(MayBeRefused()) << error.what();
        EXPECT_NE(std::string(error.what()).find("changed in place"), std::string::npos) << error.what();
        return false;
    }
    return true;
}

Shadow &RandomGraph::Pick() {
    const size_t n = shadows_.size();
    return shadows_[Chance(0.5) ? Below(n) : n - 1 - Below(std::min<size_t>(n, 4))];
}

void RandomGraph::AddLeaf(bool requires_grad) {
    const std::vector<Dims> shapes = {{2}, {3}, {4}, {6}, {1, 3}, {2, 2}, {2, 3}, {3, 2}, {2, 1, 2}, {}};
    Shadow leaf;
    leaf.dims = shapes[Below(shapes.size())];
    leaf.memory = std::make_shared<Memory>();
    leaf.is_leaf = true;
    leaf.step = steps_.size();
    steps_.emplace_back();
    for (size_t i = 0; i < static_cast<size_t>(Product(leaf.dims)); ++i) {
        leaf.memory->values.push_back(Value());
        leaf.cells.push_back(i);
        if (requires_grad) {
            leaf.scalars.push_back(tape_.Add());
        }
    }
    leaf.tensor = Tensor::FromVector(leaf.memory->values, leaf.dims);
    leaf.tensor->set_requires_grad(requires_grad);
    shadows_.push_back(std::move(leaf));
}

bool RandomGraph::TakeStep() {
    const size_t kind = Below(20);
    if (kind < 5) {
        return Unary();
    }
    if (kind < 10) {
        return Binary();
    }
    if (kind < 14) {
        return Rearrange();
    }
    if (kind < 15) {
        return Pieces();
    }
    if (kind < 17) {
        return Reduce();
    }
    return kind < 18 ? Join() : InPlace();
}

bool RandomGraph::Call(const std::vector<Shadow> &inputs, const std::function<void()> &call) {
    if (std::any_of(inputs.begin(), inputs.end(), [](const Shadow &input) { return input.IsStale(); })) {
        EXPECT_THROW(call(), AutogradError) << "a view of a tensor that was changed since";
        return false;
    }
    call();
    return true;
}

size_t RandomGraph::AddStep(const std::vector<Shadow> &inputs, Saves saves) {
    Step step;
    for (const Shadow &input : inputs) {
        if (input.InGraph()) {
            step.behind.push_back(input.step);
        }
        if (saves == Saves::kInputs) {
            step.saved.emplace_back(input.memory, input.memory->version);
        }
    }
    steps_.push_back(std::move(step));
    return steps_.size() - 1;
}

std::vector<size_t> RandomGraph::AddScalars(const std::vector<Shadow> &inputs, const Elements &elements) {
    std::vector<size_t> scalars;
    if (std::any_of(inputs.begin(), inputs.end(), [](const Shadow &input) { return input.InGraph(); })) {
        for (const Element &element : elements) {
            Tape::Terms terms;
            for (const Term &term : element.terms) {
                if (inputs[term.input].InGraph()) {
                    terms.emplace_back(inputs[term.input].scalars[term.element], term.derivative);
                }
            }
            scalars.push_back(tape_.Add(std::move(terms)));
        }
    }
    return scalars;
}

void RandomGraph::AddOutput(const std::vector<Shadow> &inputs, TensorPtr tensor, const Dims &dims,
                            const Elements &elements, bool exact, Saves saves) {
    ASSERT_EQ(tensor->Dims(), dims);
    Shadow output;
    output.tensor = std::move(tensor);
    output.dims = dims;
    output.scalars = AddScalars(inputs, elements);
    output.step = steps_.size() - 1;
    output.is_view = output.tensor->storage() == inputs[0].tensor->storage();
    output.memory = output.is_view ? inputs[0].memory : std::make_shared<Memory>();
    output.view_version = output.memory->version;
    for (const Element &element : elements) {
        if (output.is_view) {
            output.cells.push_back(inputs[0].cells[element.terms[0].element]);
        } else {
            output.cells.push_back(output.memory->values.size());
            output.memory->values.push_back(element.value);
            output.memory->exact = exact;
        }
    }
    if (saves == Saves::kOutput) {
        steps_.back().saved.emplace_back(output.memory, output.memory->version);
    }
    shadows_.push_back(std::move(output));
}

void RandomGraph::RegisterWatch() {
    const Shadow &shadow = Pick();
    if (shadow.InGraph()) {
        auto watch = std::make_shared<Watch>();
        watch->scalars = shadow.scalars;
        watch->step = shadow.step;
        shadow.tensor->RegisterHook([watch](const TensorPtr &grad) {
            ++watch->calls;
            watch->grad = grad;
        });
        watches_.push_back(std::move(watch));
    }
}

void RandomGraph::Retain() {
    Shadow &shadow = Pick();
    if (shadow.InGraph() && !shadow.is_leaf) {
        shadow.tensor->RetainGrad();
        shadow.retains_grad = true;
    }
}

// Its place in the graph stays, and what is registered on it.
void RandomGraph::Drop() {
    const size_t i = Below(shadows_.size());
    if (shadows_[i].InGraph() && !shadows_[i].is_leaf) {
        dropped_.push_back(shadows_[i].memory);
        shadows_.erase(shadows_.begin() + static_cast<std::ptrdiff_t>(i));
    }
}

void RandomGraph::ChooseRoots() {
    Doubles seeds(tape_.scalars.size());
    for (size_t left = 1 + Below(3); left > 0;) {
        const Shadow &root = Pick();
        if (!root.InGraph()) {
            continue;
        }
        if (root.IsStale()) {
            EXPECT_THROW(autograd::Backward({root.tensor}, {Tensor::OnesLike(root.tensor)}), AutogradError);
            continue;
        }
        --left;
        const bool implied = root.scalars.size() == 1 && Chance(0.5);
        Doubles grad;
        for (const size_t scalar : root.scalars) {
            grad.push_back(implied ? 1 : Value());
            seeds[scalar] += grad.back();
        }
        root_grads_.push_back(implied ? nullptr : Tensor::FromVector(grad, root.dims));
        roots_.push_back(root);
    }
    adjoints_ = tape_.Adjoints(seeds);
    for (const double adjoint : adjoints_) {
        largest_ = std::max(largest_, std::abs(adjoint));
    }
}

std::vector<bool> RandomGraph::Reached() const {
    std::vector<bool> reached(steps_.size());
    for (const Shadow &root : roots_) {
        reached[root.step] = true;
    }
    for (size_t i = steps_.size(); i-- > 0;) {
        if (reached[i]) {
            for (const size_t behind : steps_[i].behind) {
                reached[behind] = true;
            }
        }
    }
    return reached;
}

bool RandomGraph::MayBeRefused() const {
    const std::vector<bool> reached = Reached();
    for (size_t i = 0; i < steps_.size(); ++i) {
        for (const auto &[memory, version] : steps_[i].saved) {
            if (reached[i] && memory->version != version) {
                return true;
            }
        }
    }
    return false;
}

template <typename Expected>
void RandomGraph::ExpectNear(const TensorPtr &got, size_t size, const Expected &expected, double scale,
                             const char *what) {
    const Doubles values = got == nullptr ? Doubles(size) : got->ToVector<double>();
    ASSERT_EQ(values.size(), size) << what;
    for (size_t i = 0; i < size; ++i) {
        EXPECT_NEAR(values[i], expected(i), 1e-10 * scale * (1 + std::abs(expected(i))))
            << what << ", element " << i << (got == nullptr ? " (null)" : "");
    }
}

void RandomGraph::ExpectAdjoint(const TensorPtr &got, const std::vector<size_t> &scalars, double times,
                                const char *what) {
    ExpectNear(
        got, scalars.size(), [&](size_t i) { return times * adjoints_[scalars[i]]; }, largest_, what);
}

void RandomGraph::CheckGrad() {
    std::vector<Shadow> targets;
    TensorList inputs;
    const bool create_graph = Chance(0.25);
    std::vector<bool> wanted(steps_.size());
    for (size_t i = 1 + Below(4); i > 0; --i) {
        const Shadow &target = Pick();
        if (target.InGraph() && !target.IsStale()) {
            targets.push_back(target);
            inputs.push_back(target.tensor);
            wanted[target.step] = true;
        }
    }
    TensorList outputs;
    for (const Shadow &root : roots_) {
        outputs.push_back(root.tensor);
    }
    const TensorList grads = autograd::Grad(outputs, inputs, root_grads_, true, create_graph, /*allow_unused=*/true);
    ASSERT_EQ(grads.size(), targets.size());
    for (size_t i = 0; i < targets.size(); ++i) {
        ExpectAdjoint(grads[i], targets[i].scalars, 1, "what Grad gave");
    }
    const std::vector<bool> reached = Reached();
    for (size_t i = 0; i < steps_.size(); ++i) {
        for (const size_t behind : steps_[i].behind) {
            wanted[i] = wanted[i] || wanted[behind];
        }
    }
    for (size_t i = 0; i < steps_.size(); ++i) {
        wanted[i] = wanted[i] && reached[i];
    }
    CheckWatches(wanted);
    for (const Shadow &shadow : shadows_) {
        EXPECT_TRUE(!shadow.is_leaf || shadow.tensor->grad() == nullptr);
    }
}

void RandomGraph::CheckBackward(double times, bool retain_graph) {
    TensorList outputs;
    for (const Shadow &root : roots_) {
        outputs.push_back(root.tensor);
    }
    if (times == 1) {
        for (const Shadow &shadow : shadows_) {
            shadow.tensor->ZeroGrad();
        }
    }
    autograd::Backward(outputs, root_grads_, retain_graph);
    CheckWatches(Reached());
    for (const Shadow &shadow : shadows_) {
        if (shadow.InGraph() && (shadow.is_leaf || shadow.retains_grad)) {
            ExpectAdjoint(shadow.tensor->grad(), shadow.scalars, times, "grad()");
        } else {
            EXPECT_EQ(shadow.tensor->grad(), nullptr);
        }
    }
}

// Each hook once if its node runs, with the sum.
void RandomGraph::CheckWatches(const std::vector<bool> &runs) {
    for (const auto &watch : watches_) {
        EXPECT_EQ(watch->calls, runs[watch->step] ? 1 : 0);
        if (watch->calls > 0) {
            ExpectAdjoint(watch->grad, watch->scalars, 1, "what a hook saw");
        }
        watch->calls = 0;
        watch->grad = nullptr;
    }
}

}  // namespace infini_train::test
