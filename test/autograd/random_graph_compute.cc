// Steps that compute.

#include <algorithm>
#include <cmath>
#include <utility>

#include "infini_train/include/nn/functional.h"

#include "test/autograd/random_graph.h"

namespace infini_train::test {

namespace {

struct UnaryKind {
    std::function<double(double)> value;
    std::function<double(double)> derivative;
    std::function<TensorPtr(const TensorPtr &)> call;
    Saves saves = Saves::kNothing;
    bool exact = false;
};

double Logistic(double v) {
    return 1 / (1 + std::exp(-v));
}

std::vector<UnaryKind> UnaryKinds(double number) {
    return {
        {[](double v) { return std::tanh(v); }, [](double v) { return 1 - std::tanh(v) * std::tanh(v); },
         [](const TensorPtr &t) { return t->Tanh(); }, Saves::kOutput},
        {[](double v) { return std::max(v, 0.0); }, [](double v) { return v > 0 ? 1.0 : 0.0; },
         [](const TensorPtr &t) { return t->Relu(); }, Saves::kOutput, true},
        {[](double v) { return -v; }, [](double) { return -1.0; }, [](const TensorPtr &t) { return t->Neg(); },
         Saves::kNothing, true},
        {[=](double v) { return v + number; }, [](double) { return 1.0; },
         [=](const TensorPtr &t) { return t->Add(number); }, Saves::kNothing, true},
        {[=](double v) { return v * number; }, [=](double) { return number; },
         [=](const TensorPtr &t) { return t->Mul(number); }},
        {[](double v) { return v * v; }, [](double v) { return 2 * v; }, [](const TensorPtr &t) { return t->Square(); },
         Saves::kInputs},
        {[](double v) { return std::sin(v); }, [](double v) { return std::cos(v); },
         [](const TensorPtr &t) { return t->Sin(); }, Saves::kInputs},
        {Logistic, [](double v) { return Logistic(v) * Logistic(-v); }, [](const TensorPtr &t) { return t->Sigmoid(); },
         Saves::kOutput},
        {[](double v) { return std::exp(v); }, [](double v) { return std::exp(v); },
         [](const TensorPtr &t) { return t->Exp(); }, Saves::kOutput},
    };
}

}  // namespace

bool RandomGraph::Unary() {
    const std::vector<Shadow> in = {Pick()};
    const Shadow &x = in[0];
    double largest = 0, smallest = kLargest;
    for (size_t i = 0; i < x.cells.size(); ++i) {
        largest = std::max(largest, std::abs(x.At(i)));
        smallest = std::min(smallest, std::abs(x.At(i)));
    }
    const auto kinds = UnaryKinds(Value());
    // On which side of Relu's corner a value lies may depend on rounding; large ones are made small again.
    const bool at_corner = !x.memory->exact && smallest < 1e-6;
    const UnaryKind &kind = kinds[largest > 4 || at_corner ? 0 : Below(kinds.size())];
    Elements elements;
    for (size_t i = 0; i < x.cells.size(); ++i) {
        elements.push_back({kind.value(x.At(i)), {{0, i, kind.derivative(x.At(i))}}});
    }
    TensorPtr y;
    if (!Call(in, [&] { y = kind.call(x.tensor); })) {
        return false;
    }
    AddStep(in, kind.saves);
    AddOutput(in, y, x.dims, elements, x.memory->exact && kind.exact, kind.saves);
    return true;
}

bool RandomGraph::Binary() {
    const std::vector<Shadow> in = {Pick(), Pick()};
    const size_t kind = Below(5);
    Dims dims;
    if (!Broadcast(in[0].dims, in[1].dims, &dims) || Product(dims) > kMaxElements) {
        return false;
    }
    const bool exact = in[0].memory->exact && in[1].memory->exact;
    Elements elements;
    for (int64_t p = 0; p < Product(dims); ++p) {
        const Dims at = Unravel(p, dims);
        const size_t i = Ravel(at, in[0].dims), j = Ravel(at, in[1].dims);
        const double a = in[0].At(i), b = in[1].At(j);
        if ((kind == 3 && std::abs(b) < 0.25) || (kind == 4 && !exact && std::abs(a - b) < 1e-6)) {
            return false;
        }
        switch (kind) {
            case 0:
                elements.push_back({a + b, {{0, i, 1}, {1, j, 1}}});
                break;
            case 1:
                elements.push_back({a - b, {{0, i, 1}, {1, j, -1}}});
                break;
            case 2:
                elements.push_back({a * b, {{0, i, b}, {1, j, a}}});
                break;
            case 3:
                elements.push_back({a / b, {{0, i, 1 / b}, {1, j, -a / b / b}}});
                break;
            default: {
                const double share = a > b ? 1 : a < b ? 0 : 0.5;
                elements.push_back({std::max(a, b), {{0, i, share}, {1, j, 1 - share}}});
            }
        }
        if (std::abs(elements.back().value) > kLargest) {
            return false;
        }
    }
    TensorPtr y;
    const auto call = [&] {
        const TensorPtr &a = in[0].tensor, &b = in[1].tensor;
        y = kind == 0   ? a->Add(b)
            : kind == 1 ? a->Sub(b)
            : kind == 2 ? a->Mul(b)
            : kind == 3 ? a->Div(b)
                        : a->Maximum(b);
    };
    if (!Call(in, call)) {
        return false;
    }
    AddStep(in, kind < 2 ? Saves::kNothing : Saves::kInputs);
    AddOutput(in, y, dims, elements, exact && kind != 2 && kind != 3, kind == 3 ? Saves::kOutput : Saves::kNothing);
    return true;
}

bool RandomGraph::Join() {
    std::vector<Shadow> in = {Pick()};
    if (in[0].dims.empty()) {
        return false;
    }
    const bool stack = Chance(0.5);
    const size_t dim = Below(in[0].dims.size());
    const auto d = static_cast<int64_t>(dim);
    const auto without = [&](Dims dims) {
        dims[dim] = stack ? dims[dim] : 1;
        return dims;
    };
    for (int i = 0; i < 6 && in.size() < 3; ++i) {
        const Shadow &other = Pick();
        if (other.dims.size() == in[0].dims.size() && without(other.dims) == without(in[0].dims)) {
            in.push_back(other);
        }
    }
    Dims dims = in[0].dims;
    if (stack) {
        dims.insert(dims.begin() + d, static_cast<int64_t>(in.size()));
    } else {
        dims[dim] = 0;
        for (const Shadow &input : in) {
            dims[dim] += input.dims[dim];
        }
    }
    if (in.size() < 2 || Product(dims) > kMaxElements || dims.size() > 4) {
        return false;
    }
    Elements elements;
    bool exact = true;
    TensorList tensors;
    for (const Shadow &input : in) {
        exact = exact && input.memory->exact;
        tensors.push_back(input.tensor);
    }
    for (int64_t p = 0; p < Product(dims); ++p) {
        Dims at = Unravel(p, dims);
        size_t from = 0;
        if (stack) {
            from = static_cast<size_t>(at[dim]);
            at.erase(at.begin() + d);
        } else {
            while (at[dim] >= in[from].dims[dim]) {
                at[dim] -= in[from++].dims[dim];
            }
        }
        const size_t i = Ravel(at, in[from].dims);
        elements.push_back({in[from].At(i), {{from, i, 1}}});
    }
    TensorPtr y;
    const auto call = [&] { y = stack ? nn::function::Stack(tensors, d) : nn::function::Concat(tensors, d); };
    if (!Call(in, call)) {
        return false;
    }
    AddStep(in, Saves::kNothing);
    AddOutput(in, y, dims, elements, exact);
    return true;
}

bool RandomGraph::Reduce() {
    const std::vector<Shadow> in = {Pick()};
    const Shadow &x = in[0];
    const size_t kind = Below(3);
    const bool all = x.dims.empty() || Chance(0.3), keep_dim = !all && Chance(0.5);
    const size_t dim = all ? 0 : Below(x.dims.size());
    const auto d = static_cast<int64_t>(dim);
    Dims kept = x.dims;
    if (all) {
        kept.assign(x.dims.size(), 1);
    } else {
        kept[dim] = 1;
    }
    Elements elements(static_cast<size_t>(Product(kept)), Element{0, {}});
    std::vector<std::vector<size_t>> groups(elements.size());
    for (size_t i = 0; i < x.cells.size(); ++i) {
        groups[Ravel(Unravel(static_cast<int64_t>(i), x.dims), kept)].push_back(i);
    }
    for (size_t group = 0; group < groups.size(); ++group) {
        double sum = 0, largest = -1e300, winners = 0;
        for (const size_t i : groups[group]) {
            sum += x.At(i);
            largest = std::max(largest, x.At(i));
        }
        for (const size_t i : groups[group]) {
            winners += x.At(i) == largest ? 1 : 0;
            if (kind == 2 && !x.memory->exact && i != groups[group][0] &&
                std::abs(x.At(i) - x.At(groups[group][0])) < 1e-6) {
                return false;
            }
        }
        const auto count = static_cast<double>(groups[group].size());
        elements[group].value = kind == 0 ? sum : kind == 1 ? sum / count : largest;
        for (const size_t i : groups[group]) {
            const double share = x.At(i) == largest ? 1 / winners : 0;
            elements[group].terms.push_back({0, i, kind == 0 ? 1 : kind == 1 ? 1 / count : share});
        }
    }
    TensorPtr y;
    const auto call = [&] {
        const TensorPtr &t = x.tensor;
        y = kind == 0   ? all ? t->Sum() : t->Sum(d, keep_dim)
              : kind == 1 ? all ? t->Mean() : t->Mean(d, keep_dim)
              : all ? t->Max()
                        : t->Max(d, keep_dim);
    };
    if (!Call(in, call)) {
        return false;
    }
    Dims dims = all ? Dims{} : kept;
    if (!all && !keep_dim) {
        dims.erase(dims.begin() + d);
    }
    AddStep(in, kind == 2 ? Saves::kInputs : Saves::kNothing);
    AddOutput(in, y, dims, elements, x.memory->exact && kind != 1, kind == 2 ? Saves::kOutput : Saves::kNothing);
    return true;
}

}  // namespace infini_train::test
