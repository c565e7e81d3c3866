#include "infini_train/include/core/generator.h"

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/philox.h"

#include "infini_train/src/core/random_tape.h"

namespace infini_train {

void Generator::SetSeed(uint64_t seed, uint64_t stream) {
    SetState({seed, stream, 0});
}

Generator::State Generator::GetState() const {
    if (RandomTape::Scope *scope = RandomTape::Scope::Current()) {
        return scope->Look(*this);
    }
    return Now();
}

Generator::State Generator::Now() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return state_;
}

void Generator::SetState(const State &state) {
    if (RandomTape::Scope *scope = RandomTape::Scope::Current(); scope != nullptr && scope->IsReplay()) {
        return;  // what follows is on the tape
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    state_ = state;
}

Generator::State Generator::Reserve(uint64_t blocks) {
    if (RandomTape::Scope *scope = RandomTape::Scope::Current()) {
        return scope->Draw(*this, blocks);
    }
    return Advance(blocks);
}

Generator::State Generator::Advance(uint64_t blocks) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const State begin = state_;
    state_.offset += blocks;
    return begin;
}

uint64_t Generator::NextBelow(uint64_t n) {
    if (n == 0) {
        throw ValueError("Generator::NextBelow: expected a bound of at least 1, got 0");
    }
    // The high half of a 64 x 64-bit product is uniform once the low halves that make some results likelier are
    // rejected: the first 2^64 mod n of them.
    using Wide = unsigned __int128;
    const uint64_t biased = (0 - n) % n;
    for (;;) {
        const State state = Reserve(1);
        const auto words = PhiloxBlock(state.seed, state.stream, state.offset);
        const uint64_t bits = static_cast<uint64_t>(words[1]) << 32 | words[0];
        const Wide product = static_cast<Wide>(bits) * n;
        if (static_cast<uint64_t>(product) >= biased) {
            return static_cast<uint64_t>(product >> 64);
        }
    }
}

double Generator::NextDouble() {
    const State state = Reserve(1);
    const auto words = PhiloxBlock(state.seed, state.stream, state.offset);
    return UniformDouble(words[0], words[1]);
}

Generator &DefaultGenerator() {
    static Generator &generator = *new Generator;  // never destroyed: static variables may still draw from it
    return generator;
}

void ManualSeed(uint64_t seed) {
    DefaultGenerator().SetSeed(seed);
}

}  // namespace infini_train
