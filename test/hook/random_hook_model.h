#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "infini_train/include/common/hook.h"

#include "test/hook/random_hook_plan.h"

namespace infini_train::test {

/// Which hooks fire in which order, and what they see: plain vectors and a tape of scalars, which share nothing with
/// the library's hooks and autograd.
class Model : public Side {
public:
    using Side::Side;

    struct Value {
        double value;
        int edge = kNoEdge;  // a node of the tape, ~n of leaf n, or none where no gradient goes
    };

    Value Start(bool requires_grad) {
        tape_.clear();
        for (auto &grad : grads) {
            grad = kNothing;
        }
        return {1, requires_grad ? ~kModules : kNoEdge};
    }
    static bool Tracked(const Value &value) { return value.edge != kNoEdge; }
    static double Result(const Value &value) { return value.value; }
    void HookOutput(const Value &value, const std::vector<Spec> &hooks) {
        for (const auto &spec : hooks) {
            if (value.edge >= 0) {
                Add(spec, &tape_[static_cast<size_t>(value.edge)].output_hooks, false, false);
            }
        }
    }

    Value Call(int m, Value x) {
        std::vector<Hooks *> both = {&hooks_[kGlobal], &hooks_[m]};
        if (!Any(both, kForwardPre, kBackwardPost)) {
            return Body(m, x);
        }
        const size_t pass = specs_.size();
        Value y{kNothing};
        std::exception_ptr error;
        int call = kNoEdge;
        try {
            for (auto *hooks : both) {
                Fire((*hooks)[kForwardPre], pass, [&](int hook) { x = Put(x, Act(hook, x.value, kNothing)); });
            }
            call = recording_ && Any(both, kBackwardPre, kBackwardPost) ? calls_++ : kNoEdge;
            x = call == kNoEdge ? x : Wrap(x, m, call, Node::kInput);
            y = Body(m, x);
        } catch (const std::exception &) {
            error = std::current_exception();
        }
        for (auto *hooks : both) {
            FireAfter((*hooks)[kForwardPost], pass, &error, [&](int hook, bool failed) {
                const Reply reply = Act(hook, y.value, x.value);
                y = failed ? y : Put(y, reply);
            });
        }
        Rethrow(error);
        return call == kNoEdge ? y : Wrap(y, m, call, Node::kOutput);
    }

    void Backward(const Value &root, bool /*retain*/ = false) {
        const size_t pass = specs_.size();
        const bool recording = std::exchange(recording_, false);
        const auto restore = std::shared_ptr<void>(nullptr, [&](void *) { recording_ = recording; });
        std::map<int, int> awaited;  // how many gradients each edge that the root leads to waits for
        Await(root.edge, &awaited);
        std::map<int, double> sums;
        Notes notes;
        std::vector<int> leaves;
        std::set<int> due;
        const auto send = [&](int edge, double grad) {
            if (edge == kNoEdge) {
                return;
            }
            double &sum = sums.try_emplace(edge, kNothing).first->second;
            sum = Sum(sum, grad);
            if (--awaited[edge] == 0 && edge < 0) {
                leaves.push_back(~edge);
            } else if (awaited[edge] == 0) {
                due.insert(edge);
            }
        };
        send(root.edge, 1);
        try {
            while (!leaves.empty() || !due.empty()) {
                if (!leaves.empty()) {
                    const int leaf = leaves.front();
                    leaves.erase(leaves.begin());
                    Accumulate(leaf, sums[~leaf], pass);
                    continue;
                }
                const int at = *due.rbegin();  // of those that are due the one recorded last
                due.erase(at);
                const Node node = tape_[static_cast<size_t>(at)];
                double grad = sums[at];
                const double first = RunNode(node, &grad, pass, awaited, &notes);
                for (size_t i = 0; i < node.edges.size(); ++i) {
                    const double other = grad == kNothing ? kNothing : grad * node.edges[i].second;
                    send(node.edges[i].first, i == 0 ? first : other);
                }
            }
        } catch (const std::exception &) {
            for (; !notes.empty(); notes.pop_back()) {  // modules that were begun end, the latest first
                RunPost(notes.back().module, kNothing, notes.back().grad, pass, std::current_exception());
            }
            throw;
        }
    }

    bool Removed(int hook) const { return states_[static_cast<size_t>(hook)].removed; }
    bool Active(int hook) const { return !Removed(hook) && states_[static_cast<size_t>(hook)].enabled; }
    uint64_t Calls(int hook) const { return states_[static_cast<size_t>(hook)].calls; }
    bool Lasts(int hook) const { return states_[static_cast<size_t>(hook)].lasting; }
    size_t size() const { return states_.size(); }

    std::vector<double> grads = std::vector<double>(kModules + 1, kNothing);

private:
    static constexpr int kNoEdge = INT_MIN;
    using List = std::shared_ptr<std::vector<int>>;

    struct Hooks : std::vector<List> {  // by Point
        Hooks() {
            for (int point = 0; point < 6; ++point) {
                push_back(std::make_shared<std::vector<int>>());
            }
        }
    };
    struct State {
        List list;
        bool lasting, beside, enabled, removed = false;
        uint64_t calls = 0;
    };
    struct Node {
        enum Kind { kPlain, kInput, kOutput };
        std::vector<std::pair<int, double>> edges;  // with the derivative
        Kind kind = kPlain;
        int module = 0, call = 0;
        Hooks hooks = {};  // of its function
        List output_hooks = std::make_shared<std::vector<int>>();
    };

    // What a module's backward pre hooks left, for its post hooks.
    struct Note {
        int call, module;
        double grad;
    };
    using Notes = std::vector<Note>;

    static double Sum(double a, double b) { return a == kNothing ? b : b == kNothing ? a : a + b; }
    static bool Any(const std::vector<Hooks *> &both, int from, int to) {
        bool any = false;
        for (const auto *hooks : both) {
            for (int point = from; point <= to; ++point) {
                any |= !(*hooks)[static_cast<size_t>(point)]->empty();
            }
        }
        return any;
    }

    template <typename Wanted>
    void Fire(const List &list, size_t pass, const std::function<void(int)> &visit, const Wanted &wanted) {
        const std::vector<int> snapshot = *list;
        for (const int hook : snapshot) {
            const auto i = static_cast<size_t>(hook);
            const HookOptions &options = specs_[i]->options;
            if (i >= pass || states_[i].removed || !states_[i].enabled || !wanted(options)) {
                continue;
            }
            if (++states_[i].calls == options.max_calls) {
                Change(hook, Action::kRemove);
            }
            visit(hook);
        }
    }
    void Fire(const List &list, size_t pass, const std::function<void(int)> &visit) {
        Fire(list, pass, visit, [](const HookOptions &) { return true; });
    }

    // Hooks that come after something: once that or one of them threw, only those that are always called.
    template <typename Visit>
    void FireAfter(const List &list, size_t pass, std::exception_ptr *error, const Visit &visit) {
        const auto guarded = [&](int hook) {
            const bool failed = *error != nullptr;
            try {
                visit(hook, failed);
            } catch (const std::exception &) {
                *error = failed ? *error : std::current_exception();
            }
        };
        Fire(list, pass, guarded, [&](const HookOptions &own) { return *error == nullptr || own.always_call; });
    }
    static void Rethrow(const std::exception_ptr &error) {
        if (error) {
            std::rethrow_exception(error);
        }
    }

    void Add(const Spec &spec, const List *list, bool lasting, bool beside = true) {
        const int hook = Number(spec, lasting);
        (*list)->insert(spec.options.prepend ? (*list)->begin() : (*list)->end(), hook);
        states_.push_back({*list, lasting, beside, spec.options.enabled});
    }
    void Register(const Spec &spec) override { Add(spec, &hooks_[spec.target][spec.point], true); }
    void RegisterBeside(int hook, const Spec &spec) override {
        const State state = states_[static_cast<size_t>(hook)];
        if (state.beside) {
            Add(spec, &state.list, state.lasting);
        }
    }
    void Change(int hook, Action::Kind kind) override {
        State &state = states_[static_cast<size_t>(hook)];
        if (kind == Action::kRemove) {
            state.removed = true;
            std::erase(*state.list, hook);
        } else {
            state.enabled = kind == Action::kEnable;
        }
    }

    // What a hook made of a tensor, or of a gradient.
    Value Put(const Value &given, const Reply &reply) {
        CheckReply(reply);
        return reply.factor == 1 ? given : Apply(given, reply.factor);
    }
    double PutGrad(double given, const Reply &reply) const {
        CheckReply(reply);
        return reply.null ? kNothing : given == kNothing ? given : given * reply.factor;
    }
    static void CheckReply(const Reply &reply) {
        if (reply.wrong) {
            throw std::runtime_error("wrong");
        }
    }

    Value Record(double value, Node node) {
        std::erase_if(node.edges, [](const auto &edge) { return edge.first == kNoEdge; });
        if (!recording_ || node.edges.empty()) {
            return {value};
        }
        tape_.push_back(std::move(node));
        return {value, static_cast<int>(tape_.size()) - 1};
    }
    Value Apply(const Value &x, double factor) { return Record(x.value * factor, {{{x.edge, factor}}}); }
    Value Wrap(const Value &x, int module, int call, Node::Kind kind) {
        return Record(x.value, {{{x.edge, 1}}, kind, module, call});
    }

    Value Body(int m, const Value &x) {
        const ModulePlan &plan = modules_[static_cast<size_t>(m)];
        if (plan.kind == ModulePlan::kMultiply) {
            return Record(x.value * plan.factor, {{{x.edge, plan.factor}, {~m, x.value}}});
        }
        if (plan.kind == ModulePlan::kFunction) {
            return ApplyFunction(plan, x);
        }
        Value y = x;
        for (size_t i = 0; i < plan.children.size(); ++i) {
            if (plan.kind == ModulePlan::kSequence || i == 0) {
                y = Call(plan.children[i], y);
            } else {
                const Value other = Call(plan.children[i], x);
                y = Record(y.value + other.value, {{{y.edge, 1}, {other.edge, 1}}});
            }
        }
        return y;
    }

    Value ApplyFunction(const ModulePlan &plan, Value x) {
        Hooks hooks;
        for (const auto &spec : plan.hooks) {
            if (spec.point < kTensor) {
                Add(spec, &hooks[spec.point], false);
            }
        }
        const size_t pass = specs_.size();
        Value y{kNothing};
        std::exception_ptr error;
        try {
            Fire(hooks[kForwardPre], pass, [&](int hook) { x = Put(x, Act(hook, x.value, kNothing)); });
            y = Record(x.value * plan.factor, {{{x.edge, plan.factor}}, Node::kPlain, 0, 0, hooks});
        } catch (const std::exception &) {
            error = std::current_exception();
        }
        FireAfter(hooks[kForwardPost], pass, &error, [&](int hook, bool failed) {
            const Reply reply = Act(hook, y.value, x.value);
            y = failed ? y : Put(y, reply);
        });
        Rethrow(error);
        std::vector<Spec> output_hooks = plan.hooks;
        std::erase_if(output_hooks, [](const Spec &spec) { return spec.point != kTensor; });
        HookOutput(y, output_hooks);
        return y;
    }

    void Await(int edge, std::map<int, int> *awaited) const {
        if (edge == kNoEdge || (*awaited)[edge]++ != 0 || edge < 0) {
            return;
        }
        for (const auto &[behind, factor] : tape_[static_cast<size_t>(edge)].edges) {
            Await(behind, awaited);
        }
    }

    // Gives the gradient of the first input; *grad becomes that of the output after all hooks.
    double RunNode(const Node &node, double *grad, size_t pass, const std::map<int, int> &awaited, Notes *notes) {
        const auto replace = [&](int hook) { *grad = PutGrad(*grad, Act(hook, *grad, kNothing)); };
        Fire(node.output_hooks, pass, replace);
        double first = kNothing;
        std::exception_ptr error;
        try {
            Fire(node.hooks[kBackwardPre], pass, replace);
            RunModuleHooks(node, grad, pass, awaited, notes);
            first = *grad == kNothing ? kNothing : *grad * node.edges[0].second;
        } catch (const std::exception &) {
            error = std::current_exception();
        }
        FireAfter(node.hooks[kBackwardPost], pass, &error, [&](int hook, bool failed) {
            const Reply reply = Act(hook, first, *grad);
            first = failed ? first : PutGrad(first, reply);
        });
        Rethrow(error);
        return first;
    }
    void RunModuleHooks(const Node &node, double *grad, size_t pass, const std::map<int, int> &awaited, Notes *notes) {
        if (node.kind == Node::kOutput) {
            try {
                for (const int owner : {kGlobal, node.module}) {
                    Fire(hooks_[owner][kBackwardPre], pass,
                         [&](int hook) { *grad = PutGrad(*grad, Act(hook, *grad, kNothing)); });
                }
            } catch (const std::exception &) {
                RunPost(node.module, kNothing, *grad, pass, std::current_exception());
                throw;
            }
            const bool reaches_input = std::any_of(awaited.begin(), awaited.end(), [&](const auto &entry) {
                return entry.first >= 0 && tape_[static_cast<size_t>(entry.first)].kind == Node::kInput &&
                       tape_[static_cast<size_t>(entry.first)].call == node.call;
            });
            if (reaches_input) {
                notes->push_back({node.call, node.module, *grad});
            } else {
                RunPost(node.module, kNothing, *grad, pass);
            }
        } else if (node.kind == Node::kInput) {
            const auto found =
                std::find_if(notes->rbegin(), notes->rend(), [&](const Note &note) { return note.call == node.call; });
            if (found != notes->rend()) {
                const Note note = *found;
                notes->erase(std::next(found).base());
                *grad = RunPost(node.module, *grad, note.grad, pass);
            }
        }
    }
    double RunPost(int module, double grad, double grad_output, size_t pass, std::exception_ptr failure = nullptr) {
        std::exception_ptr error = failure;
        for (const int owner : {kGlobal, module}) {
            FireAfter(hooks_[owner][kBackwardPost], pass, &error, [&](int hook, bool failed) {
                const Reply reply = Act(hook, grad, grad_output);
                grad = failed ? grad : PutGrad(grad, reply);
            });
        }
        if (failure == nullptr) {
            Rethrow(error);
        }
        return grad;
    }

    void Accumulate(int leaf, double grad, size_t pass) {
        if (leaf < kModules) {
            Fire(hooks_[leaf][kTensor], pass, [&](int hook) { grad = PutGrad(grad, Act(hook, grad, kNothing)); });
        }
        double &sum = grads[static_cast<size_t>(leaf)];
        if (grad == kNothing) {
            return;
        }
        sum = Sum(sum, grad);
        if (leaf < kModules) {
            Fire(hooks_[leaf][kPostAccumulate], pass, [&](int hook) { Act(hook, sum, kNothing); });
        }
    }

    void Enter(int module, bool backward) override {
        const bool recording = recording_;
        const auto restore = std::shared_ptr<void>(nullptr, [&](void *) { recording_ = recording; });
        recording_ |= backward;
        const double grad = std::exchange(grads[kModules], kNothing);  // the leaf that it begins with is its own
        const Value y = Call(module, {1, ~kModules});
        if (backward && Tracked(y)) {
            Backward(y);
        }
        grads[kModules] = grad;
    }

    std::map<int, Hooks> hooks_;  // of the modules and their leaves; kGlobal: of all modules
    std::vector<State> states_;
    std::vector<Node> tape_;
    bool recording_ = true;
    int calls_ = 0;
};

}  // namespace infini_train::test
