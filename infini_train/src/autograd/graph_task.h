#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/tensor.h"

namespace infini_train::autograd {

/// Leaves a note in a pass, to be taken later in the same pass.
class NoteOwner {
public:
    virtual ~NoteOwner() = default;
    /// The pass ends with `failure` before the note was taken. Must not throw.
    virtual void PassFailed(const TensorList &gradients, std::exception_ptr failure) noexcept = 0;
};

/// One backward pass. It counts, from the roots, the edges that it will travel; a node whose edges have all delivered
/// is due, and of the nodes that are due the latest runs first. It lives in the thread that runs it; a pass begun
/// inside of a hook is another one.
///
/// On a device with streams a node and its hooks run on the stream on which it was applied, but accumulators, and what
/// a caller asked for, on the one that is current where the pass begins. Whoever gets a gradient of another stream
/// waits for it, and at the end the caller's stream waits for all others.
class GraphTask {
public:
    struct Options {
        bool retain_graph = false;
        bool create_graph = false;
    };

    explicit GraphTask(Options options);
    ~GraphTask();
    GraphTask(const GraphTask &) = delete;
    GraphTask &operator=(const GraphTask &) = delete;

    /// From `roots` to all leaves.
    void RunBackward(const std::vector<Edge> &roots, TensorList gradients);
    /// From `roots` to `targets` alone, whose gradients it gives back; null where none arrived.
    TensorList RunGrad(const std::vector<Edge> &roots, TensorList gradients, const std::vector<Edge> &targets);

    /// Takes a gradient on its way to `function` if the pass is waiting for it; false if it isn't.
    static bool Deliver(Function &function, const TensorPtr &gradient, int idx);

    /// The sum of the gradients that have already come for input `input` of `function`, which is running backward: it
    /// may add its own to them and return that instead of a large tensor that is mostly zeros. Null where nothing has
    /// come, where somebody else holds the sum, and where it would show: to hooks of the function, in anomaly mode, or
    /// in a recorded pass.
    static TensorPtr TakeSum(const Function &function, size_t input);

    /// Whether `function`, which is running backward, may write over `saved`, a large tensor out of its
    /// GetSavedTensors(), instead of making another: nobody else holds it, this is the last pass that needs it, and
    /// nothing can fail between here and its end. False wherever TakeSum gives null.
    static bool MayOverwrite(const Function &function, const TensorPtr &saved);

    /// The pass that this thread is running, or null.
    static GraphTask *Current();
    /// Whether the pass runs `function`, now or later.
    bool Runs(const Function &function) const;
    /// Whether a gradient arrives at `function` in this pass, be it past or to come.
    bool Reaches(const Function &function) const;
    /// The same, but only if it is still to come.
    bool Awaits(const Function &function) const;
    /// Hooks registered later than this wait for the next pass.
    uint64_t last_hook_id() const { return last_hook_id_; }

    /// Gradients that belong to this pass, by owner: how a module's two nodes find each other. Take gives nothing if
    /// nothing was left.
    void Leave(std::shared_ptr<NoteOwner> owner, TensorList gradients);
    std::optional<TensorList> Take(const NoteOwner *owner);
    /// What the owner of `key` keeps for the length of this pass: a T made at the first call.
    template <typename T>
    T &KeptFor(uint64_t key) {
        auto &kept = kept_[key];
        if (kept == nullptr) {
            kept = std::make_shared<T>();
        }
        return *static_cast<T *>(kept.get());
    }
    /// A key that nobody else has, in any pass.
    static uint64_t NewKey();

private:
    struct Node {
        std::shared_ptr<Function> function;
        size_t first_edge = 0;  // of its part of edge_targets_
        int dependencies = 0;   // edges that are still to deliver
        bool executes = true;
        Stream stream;  // on which it runs and waits for its gradients
        TensorList gradients;
        std::vector<std::pair<int, size_t>> captures;  // output index, slot in results_
    };
    struct Due {
        uint64_t priority;
        uint64_t order;
        uint32_t node;
        // The heap's top is the highest priority, and among equals the one that was due first.
        bool operator<(const Due &other) const {
            return priority != other.priority ? priority < other.priority : order > other.order;
        }
    };
    // From function to node: open addressing, since a map's allocations would be the most expensive part of a pass.
    class Index {
    public:
        void Clear();
        size_t capacity() const { return slots_.size(); }
        /// The value of `key`, after inserting `value` if there was none.
        uint32_t FindOrAdd(const Function *key, uint32_t value);
        /// The value of `key` or kNone.
        uint32_t Find(const Function *key) const;

    private:
        size_t Slot(const Function *key) const;
        std::vector<std::pair<const Function *, uint32_t>> slots_;
        size_t size_ = 0;
    };
    struct Note {
        std::shared_ptr<NoteOwner> owner;
        TensorList gradients;
    };
    // The lists of a pass, which the thread's next pass uses again.
    struct Workspace {
        Index index;
        std::vector<Node> nodes;
        std::vector<uint32_t> edge_targets;  // of every node in turn, for each edge; kNone where it leads nowhere
        std::vector<Due> due;                // a heap
        std::vector<Note> notes;             // a stack
        std::vector<TensorList> lists;       // empty ones with capacity, for gradients of nodes to come
    };
    static std::unique_ptr<Workspace> &SpareWorkspace();
    static constexpr uint32_t kNone = UINT32_MAX;

    uint32_t AddNode(const std::shared_ptr<Function> &function);
    void ChooseStream(Node *node);
    void Discover(const std::vector<Edge> &roots);
    void MarkPathsTo(const std::vector<Edge> &roots, const std::vector<Edge> &targets);
    void CountDependencies(const std::vector<Edge> &roots);
    static void CheckEdge(const Edge &edge);
    // Whether nobody sees how the function that is running backward comes to its result.
    static bool IsUnobserved(const Function &function);
    bool IsWanted(uint32_t node) const { return nodes_[node].executes || !nodes_[node].captures.empty(); }
    std::span<const uint32_t> Targets(const Node &node) const {
        return {edge_targets_.data() + node.first_edge, node.function->next_edges_.size()};
    }

    void Run(const std::vector<Edge> &roots, TensorList gradients);
    void Accumulate(uint32_t node, const TensorPtr &gradient, int idx);
    // Adds a gradient to what has come for an output.
    static void AddTo(TensorPtr *sum, const TensorPtr &gradient);
    // The caller's streams wait for all others.
    void JoinStreams() const;
    void RunNode(Node &node);
    void RunTensorHooks(Function &function, TensorList &gradients) const;
    void RunHooksOf(const HookList<TensorHook> &hooks, const Function &function, int idx, TensorPtr &gradient) const;
    // `gradients` may be empty afterwards.
    TensorList RunFunction(Function &function, TensorList &gradients) const;
    TensorList RunHookedFunction(Function &function, const FunctionHooks *own, TensorList &gradients) const;
    // `gradients` may be empty afterwards.
    static TensorList RunBackwardOf(Function &function, TensorList &&gradients);
    void SendOn(const Node &node, const TensorList &grad_inputs);

    const Options options_;
    const uint64_t last_hook_id_;
    std::unique_ptr<Workspace> workspace_;
    Index &index_;
    std::vector<Node> &nodes_;
    std::vector<uint32_t> &edge_targets_;
    std::vector<Due> &due_;
    std::vector<Note> &notes_;
    std::vector<Stream> side_streams_;  // those of nodes that aren't the caller's
    uint64_t due_count_ = 0;
    TensorList results_;
    std::unordered_map<uint64_t, std::shared_ptr<void>> kept_;
    uint32_t receiver_ = kNone;  // to whom the pass is handing a gradient right now
};

}  // namespace infini_train::autograd
