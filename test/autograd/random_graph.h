#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "infini_train/include/tensor.h"

namespace infini_train::test {

using Dims = std::vector<int64_t>;
using Doubles = std::vector<double>;

constexpr size_t kMaxSteps = 30;
constexpr int64_t kMaxElements = 12;
constexpr double kLargest = 1e4;

// ---- The reference --------------------------------------------------------------------------------------------------

// Scalars in the order of their making, each with its derivatives by earlier ones.
struct Tape {
    using Terms = std::vector<std::pair<size_t, double>>;

    size_t Add(Terms terms = {}) {
        scalars.push_back(std::move(terms));
        return scalars.size() - 1;
    }
    // From the derivatives by the roots to those by everything.
    Doubles Adjoints(Doubles seeds) const {
        seeds.resize(scalars.size());
        for (size_t i = scalars.size(); i-- > 0;) {
            for (const auto &[term, derivative] : scalars[i]) {
                seeds[term] += seeds[i] * derivative;
            }
        }
        return seeds;
    }

    std::vector<Terms> scalars;
};

struct Memory {
    Doubles values;
    int version = 0;
    bool exact = true;  // values that no rounding has touched, so that ties are ties
};
using MemoryPtr = std::shared_ptr<Memory>;

// A tensor of the library beside what it ought to be.
struct Shadow {
    TensorPtr tensor;
    Dims dims;
    MemoryPtr memory;
    std::vector<size_t> cells;    // of the memory, an element each
    std::vector<size_t> scalars;  // of the tape; none outside of the graph
    size_t step = 0;              // that made it
    bool is_leaf = false;
    bool is_view = false;
    bool retains_grad = false;
    int view_version = 0;

    bool InGraph() const { return !scalars.empty(); }
    bool IsStale() const { return InGraph() && is_view && memory->version != view_version; }
    double At(size_t i) const { return memory->values[cells[i]]; }
};

// A node of the graph: those behind it, and the memory that it needs unchanged.
struct Step {
    std::vector<size_t> behind;
    std::vector<std::pair<MemoryPtr, int>> saved;
};

// An output's element: its value, and its derivatives by elements of inputs.
struct Term {
    size_t input;
    size_t element;
    double derivative;
};
struct Element {
    double value;
    std::vector<Term> terms;
};
using Elements = std::vector<Element>;

// A hook that observes, and what it has observed since it was last looked at.
struct Watch {
    std::vector<size_t> scalars;
    size_t step;
    int calls = 0;
    TensorPtr grad;
};

enum class Saves { kNothing, kInputs, kOutput };

inline int64_t Product(const Dims &dims) {
    return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

// The coordinates of a row-major position, and back; a coordinate along a dimension of size 1 doesn't matter.
inline Dims Unravel(int64_t position, const Dims &dims) {
    Dims at(dims.size());
    for (size_t d = dims.size(); d-- > 0;) {
        at[d] = position % dims[d];
        position /= dims[d];
    }
    return at;
}
inline size_t Ravel(const Dims &at, const Dims &dims) {
    const size_t lead = at.size() - dims.size();
    int64_t position = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
        position = position * dims[d] + (dims[d] == 1 ? 0 : at[d + lead]);
    }
    return static_cast<size_t>(position);
}

// False if the two don't broadcast.
inline bool Broadcast(const Dims &a, const Dims &b, Dims *result) {
    result->assign(std::max(a.size(), b.size()), 1);
    for (size_t i = 0; i < result->size(); ++i) {
        const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
        if (x != y && x != 1 && y != 1) {
            return false;
        }
        (*result)[result->size() - 1 - i] = std::max(x, y);
    }
    return true;
}

/// A graph made at random, each step recorded on a tape of scalars beside it.
class RandomGraph {
public:
    explicit RandomGraph(uint64_t seed) : random_(seed) {}

    void Build();

    // Whether everything could be differentiated (rather than refused for a change in place).
    bool Check();

private:
    size_t Below(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random_); }
    bool Chance(double probability) { return std::uniform_real_distribution<double>()(random_) < probability; }
    // Quarters between -2 and 2.
    double Value() { return static_cast<double>(Below(17)) / 4 - 2; }
    // Later ones more often.
    Shadow &Pick();

    void AddLeaf(bool requires_grad);

    bool TakeStep();

    // Calls the library; a stale view among the inputs must be refused, and then there is no result.
    bool Call(const std::vector<Shadow> &inputs, const std::function<void()> &call);

    size_t AddStep(const std::vector<Shadow> &inputs, Saves saves);

    std::vector<size_t> AddScalars(const std::vector<Shadow> &inputs, const Elements &elements);

    // Writes down an output of the step made last.
    void AddOutput(const std::vector<Shadow> &inputs, TensorPtr tensor, const Dims &dims, const Elements &elements,
                   bool exact, Saves saves = Saves::kNothing);

    bool Unary();
    bool Binary();

    // Output elements that are input elements, found by their coordinates.
    static Elements Picked(const Shadow &x, const Dims &dims, const std::function<Dims(Dims)> &source);
    static Elements Same(const Shadow &x);

    // Views and copies.
    bool Rearrange();

    bool Pieces();
    bool Reduce();
    bool Join();
    // A change in place, of one of these kinds, by a tensor or by a number.
    bool InPlace();
    enum class Change { kAdd, kSub, kMul, kDiv, kCopy, kAddNumber, kMulNumber, kRelu, kFill };
    static Element Changed(Change change, double a, double b, double number, size_t i, size_t j);
    static void Apply(Change change, double number, const TensorPtr &t, const TensorPtr &u);
    bool IsSaved(const MemoryPtr &memory) const;
    bool IsShared(size_t shadow) const;
    void WriteDown(size_t target, const std::vector<Shadow> &operands, Change change, const Elements &elements);

    void RegisterWatch();
    void Retain();
    void Drop();
    void ChooseRoots();
    void CheckGrad();
    void CheckBackward(double times, bool retain_graph);
    void CheckWatches(const std::vector<bool> &runs);
    std::vector<bool> Reached() const;
    bool MayBeRefused() const;
    template <typename Expected>
    void ExpectNear(const TensorPtr &got, size_t size, const Expected &expected, double scale, const char *what);
    void ExpectAdjoint(const TensorPtr &got, const std::vector<size_t> &scalars, double times, const char *what);

    std::mt19937_64 random_;
    Tape tape_;
    std::vector<Step> steps_;
    std::vector<Shadow> shadows_;
    std::vector<std::shared_ptr<Watch>> watches_;
    std::vector<MemoryPtr> dropped_;
    size_t steps_taken_ = 0;

    std::vector<Shadow> roots_;
    TensorList root_grads_;
    Doubles adjoints_;
    double largest_ = 1;
};

}  // namespace infini_train::test
