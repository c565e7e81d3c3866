#include "test/cuda_emulation/runtime/options.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace cuda_emulation {
namespace {

Options FromEnvironment() {
    Options options;
    const char *const value = std::getenv("INFINI_TRAIN_EMULATION");
    const std::string_view mode = value != nullptr ? value : "plain";
    if (mode == "random") {
        options.order = Order::kRandom;
        options.lazy_streams = true;
    } else if (mode == "reverse") {
        options.order = Order::kReverse;
    } else if (mode != "plain" && mode != "") {
        std::fprintf(stderr, "INFINI_TRAIN_EMULATION: expected plain, reverse or random, got %s\n", value);
        std::exit(2);
    }
    if (const char *const seed = std::getenv("INFINI_TRAIN_EMULATION_SEED")) {
        options.seed = std::strtoull(seed, nullptr, 0);
    }
    return options;
}

}  // namespace

Options &CurrentOptions() {
    static Options options = FromEnvironment();
    return options;
}

uint64_t NextRandom() {
    // SplitMix64.
    static uint64_t state = 0;
    state += 0x9E3779B97F4A7C15U;
    uint64_t z = state + CurrentOptions().seed * 0xD1342543DE82EF95U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

}  // namespace cuda_emulation
