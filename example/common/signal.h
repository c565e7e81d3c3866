#pragma once

namespace infini_train::example {

/// While one lives, the first Ctrl-C (or SIGTERM) only makes StopRequested() true, so that the program can end with
/// what it has; the second does what it always does and ends the program. At most one at a time.
class StopOnSignal {
public:
    /// Forgets an earlier request and takes the signals over.
    StopOnSignal();
    /// Gives the signals back; StopRequested() keeps its answer.
    ~StopOnSignal();

    StopOnSignal(const StopOnSignal &) = delete;
    StopOnSignal &operator=(const StopOnSignal &) = delete;
};

/// Whether the user has asked the program to stop. Cheap: a loop may ask at each step.
bool StopRequested();

}  // namespace infini_train::example
