// Steps that rearrange, and those that change a tensor in place.

#include <algorithm>
#include <cmath>
#include <utility>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"

#include "test/autograd/random_graph.h"

namespace infini_train::test {

Elements RandomGraph::Picked(const Shadow &x, const Dims &dims, const std::function<Dims(Dims)> &source) {
    Elements elements;
    for (int64_t p = 0; p < Product(dims); ++p) {
        const size_t i = Ravel(source(Unravel(p, dims)), x.dims);
        elements.push_back({x.At(i), {{0, i, 1}}});
    }
    return elements;
}

Elements RandomGraph::Same(const Shadow &x) {
    return Picked(x, x.dims, [](const Dims &at) { return at; });
}

bool RandomGraph::Rearrange() {
    const std::vector<Shadow> in = {Pick()};
    const Shadow &x = in[0];
    const size_t kind = Below(9);
    const size_t dim = x.dims.empty() ? 0 : Below(x.dims.size());
    const auto d = static_cast<int64_t>(dim);
    const bool is_flat = x.dims.empty();
    if (kind < 4 && is_flat) {
        return false;
    }
    Dims dims = x.dims;
    Elements elements = Same(x);
    std::function<TensorPtr()> call;
    if (kind == 0) {
        std::swap(dims[dim], dims[0]);
        elements = Picked(x, dims, [&](Dims at) {
            std::swap(at[dim], at[0]);
            return at;
        });
        call = [&] { return x.tensor->Transpose(0, d); };
    } else if (kind == 1) {
        const auto begin = static_cast<int64_t>(Below(dims[dim])), step = 1 + static_cast<int64_t>(Below(2));
        dims[dim] = (dims[dim] - begin + step - 1) / step;
        elements = Picked(x, dims, [&](Dims at) {
            at[dim] = begin + at[dim] * step;
            return at;
        });
        call = [&, begin, step] { return x.tensor->Slice(d, begin, x.dims[dim], step); };
    } else if (kind == 2) {
        const auto index = static_cast<int64_t>(Below(dims[dim]));
        dims.erase(dims.begin() + d);
        elements = Picked(x, dims, [&](Dims at) {
            at.insert(at.begin() + d, index);
            return at;
        });
        call = [&, index] { return x.tensor->Select(d, index); };
    } else if (kind == 3) {
        dims = {static_cast<int64_t>(elements.size())};
        call = [&] { return Chance(0.5) ? x.tensor->Flatten() : x.tensor->Reshape({-1}); };
    } else if (kind == 4) {
        dims.insert(dims.begin() + d, 1);
        call = [&] { return x.tensor->Unsqueeze(d); };
    } else if (kind == 5) {
        dims.erase(std::remove(dims.begin(), dims.end(), 1), dims.end());
        call = [&] { return x.tensor->Squeeze(); };
    } else if (kind == 6) {
        dims.insert(dims.begin(), 2);
        if (Product(dims) > kMaxElements) {
            return false;
        }
        elements = Picked(x, dims, [](const Dims &at) { return at; });
        call = [&] { return x.tensor->Expand(dims); };
    } else {
        call = [&] { return kind == 7 ? x.tensor->Clone() : x.tensor->Detach(); };
    }
    TensorPtr y;
    if (kind == 8) {
        y = call();  // even of a stale view
        AddStep({}, Saves::kNothing);
        AddOutput(in, y, dims, elements, true);
        shadows_.back().scalars.clear();
        shadows_.back().is_view = false;
        return true;
    }
    if (dims.size() > 4 || !Call(in, [&] { y = call(); })) {
        return false;
    }
    AddStep(in, Saves::kNothing);
    AddOutput(in, y, dims, elements, x.memory->exact);
    return true;
}

bool RandomGraph::Pieces() {
    const std::vector<Shadow> in = {Pick()};
    const Shadow &x = in[0];
    if (x.dims.empty()) {
        return false;
    }
    const bool unbind = Chance(0.5);
    const size_t dim = Below(x.dims.size());
    const auto d = static_cast<int64_t>(dim);
    const int64_t size = unbind ? 1 : 1 + static_cast<int64_t>(Below(2));
    TensorList pieces;
    if (!Call(in, [&] { pieces = unbind ? x.tensor->Unbind(d) : x.tensor->Split(size, d); })) {
        return false;
    }
    AddStep(in, Saves::kNothing);
    for (size_t i = 0; i < pieces.size(); ++i) {
        const int64_t begin = static_cast<int64_t>(i) * size;
        Dims dims = x.dims;
        dims[dim] = std::min(size, x.dims[dim] - begin);
        const Elements elements = Picked(x, dims, [&](Dims at) {
            at[dim] += begin;
            return at;
        });
        if (unbind) {
            dims.erase(dims.begin() + d);
        }
        AddOutput(in, pieces[i], dims, elements, x.memory->exact);
    }
    return true;
}

Element RandomGraph::Changed(Change change, double a, double b, double number, size_t i, size_t j) {
    switch (change) {
        case Change::kAdd:
            return {a + b, {{0, i, 1}, {1, j, 1}}};
        case Change::kSub:
            return {a - b, {{0, i, 1}, {1, j, -1}}};
        case Change::kMul:
            return {a * b, {{0, i, b}, {1, j, a}}};
        case Change::kDiv:
            return {a / b, {{0, i, 1 / b}, {1, j, -a / b / b}}};
        case Change::kCopy:
            return {b, {{1, j, 1}}};
        case Change::kAddNumber:
            return {a + number, {{0, i, 1}}};
        case Change::kMulNumber:
            return {a * number, {{0, i, number}}};
        case Change::kRelu:
            return {std::max(a, 0.0), {{0, i, a > 0 ? 1.0 : 0.0}}};
        case Change::kFill:
            break;
    }
    return {number, {}};
}

void RandomGraph::Apply(Change change, double number, const TensorPtr &t, const TensorPtr &u) {
    switch (change) {
        case Change::kAdd:
            t->Add_(u);
            break;
        case Change::kSub:
            t->Sub_(u);
            break;
        case Change::kMul:
            t->Mul_(u);
            break;
        case Change::kDiv:
            t->Div_(u);
            break;
        case Change::kCopy:
            t->Copy_(u);
            break;
        case Change::kAddNumber:
            t->Add_(number);
            break;
        case Change::kMulNumber:
            t->Mul_(number);
            break;
        case Change::kRelu:
            t->Relu_();
            break;
        case Change::kFill:
            t->Fill_(number);
            break;
    }
}

bool RandomGraph::IsSaved(const MemoryPtr &memory) const {
    for (const Step &step : steps_) {
        for (const auto &saved : step.saved) {
            if (saved.first == memory) {
                return true;
            }
        }
    }
    return false;
}

bool RandomGraph::IsShared(size_t shadow) const {
    for (size_t i = 0; i < shadows_.size(); ++i) {
        if (i != shadow && shadows_[i].memory == shadows_[shadow].memory) {
            return true;
        }
    }
    return false;
}

bool RandomGraph::InPlace() {
    const size_t target = Below(shadows_.size());
    const Shadow x = shadows_[target], y = Pick();
    const auto change = static_cast<Change>(Below(9));
    const double number = Value();
    Dims dims;
    std::vector<size_t> cells = x.cells;
    std::sort(cells.begin(), cells.end());
    if (!Broadcast(x.dims, y.dims, &dims) || dims != x.dims ||
        std::adjacent_find(cells.begin(), cells.end()) != cells.end()) {
        return false;
    }
    Elements elements;
    for (size_t i = 0; i < x.cells.size(); ++i) {
        const size_t j = Ravel(Unravel(static_cast<int64_t>(i), x.dims), y.dims);
        elements.push_back(Changed(change, x.At(i), y.At(j), number, i, j));
        if (std::abs(elements.back().value) > kLargest || (change == Change::kDiv && std::abs(y.At(j)) < 0.25) ||
            (change == Change::kRelu && !x.memory->exact && std::abs(x.At(i)) < 1e-6)) {
            return false;
        }
    }
    std::vector<Shadow> operands = {x};
    if (change <= Change::kCopy) {
        operands.push_back(y);
    }
    const bool recorded = x.InGraph() || (operands.size() > 1 && y.InGraph());
    const bool shared = IsShared(target);
    // A tensor outside of the graph can't join it while others show its memory: they would stay outside.
    const bool refused = x.InGraph() ? x.is_leaf || x.is_view : recorded && shared;
    // What makes a backward pass impossible happens, but not in every graph.
    if (Chance(0.9) && (refused || shared || IsSaved(x.memory))) {
        return false;
    }
    const auto call = [&] { Apply(change, number, x.tensor, y.tensor); };
    if (refused) {
        EXPECT_THROW(call(), AutogradError);
        return false;
    }
    if (!x.InGraph() && recorded && std::find(dropped_.begin(), dropped_.end(), x.memory) != dropped_.end()) {
        return false;  // the graph may hold what shares it
    }
    if (!recorded) {
        call();
    } else if (!Call(operands, call)) {
        return false;
    }
    WriteDown(target, operands, change, elements);
    return true;
}

void RandomGraph::WriteDown(size_t target, const std::vector<Shadow> &operands, Change change,
                            const Elements &elements) {
    Shadow &self = shadows_[target];
    Memory &memory = *self.memory;
    const MemoryPtr &other = operands.back().memory;
    if (std::any_of(operands.begin(), operands.end(), [](const Shadow &operand) { return operand.InGraph(); })) {
        AddStep(operands, Saves::kNothing);
        if (change == Change::kMul || change == Change::kDiv) {
            steps_.back().saved.emplace_back(other, other->version);
        }
        self.scalars = AddScalars(operands, elements);
        self.step = steps_.size() - 1;
        self.is_leaf = self.is_view = false;
    }
    const bool rounds = change == Change::kMul || change == Change::kDiv || change == Change::kMulNumber;
    memory.exact = memory.exact && other->exact && !rounds;
    for (size_t i = 0; i < elements.size(); ++i) {
        memory.values[self.cells[i]] = elements[i].value;
    }
    ++memory.version;
}

}  // namespace infini_train::test
