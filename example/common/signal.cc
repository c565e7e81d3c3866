#include "example/common/signal.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <unistd.h>

namespace infini_train::example {

namespace {

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler can't wait for a lock");

struct sigaction old_interrupt;
struct sigaction old_terminate;

// Calls nothing that isn't safe in a signal handler.
void OnSignal(int number) {
    const int saved_errno = errno;
    stop_requested.store(true);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (number == SIGINT) {
        constexpr char kNote[] = "\nStopping after this step; Ctrl-C again ends at once.\n";
        [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kNote, sizeof(kNote) - 1);
    }
    errno = saved_errno;
}

}  // namespace

StopOnSignal::StopOnSignal() {
    stop_requested.store(false);
    struct sigaction action = {};
    action.sa_handler = OnSignal;
    // Reads and writes in progress go on as if nothing had happened.
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &old_interrupt);
    sigaction(SIGTERM, &action, &old_terminate);
}

StopOnSignal::~StopOnSignal() {
    sigaction(SIGINT, &old_interrupt, nullptr);
    sigaction(SIGTERM, &old_terminate, nullptr);
}

bool StopRequested() {
    return stop_requested.load(std::memory_order_relaxed);
}

}  // namespace infini_train::example
