#include "test/cuda_emulation/emulator/options.h"

#include <cstdlib>
#include <string>

namespace cuda_emulation {
namespace {

Options FromEnvironment() {
    Options options;
    const char *const mode = std::getenv("INFINI_TRAIN_EMULATION");
    if (mode != nullptr && std::string(mode) == "random") {
        options.order = Options::Order::kRandom;
        options.lazy_streams = true;
        options.guards_memory = true;
    }
    if (const char *const seed = std::getenv("INFINI_TRAIN_EMULATION_SEED")) {
        options.seed = std::strtoull(seed, nullptr, 0);
    }
    return options;
}

}  // namespace

Options &GetOptions() {
    static Options options = FromEnvironment();
    return options;
}

// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
uint64_t NextRandom() {
    static uint64_t state = GetOptions().seed;
    state += 0x9e3779b97f4a7c15U;
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
}

}  // namespace cuda_emulation
