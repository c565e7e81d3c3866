#include "infini_train/src/core/random_tape.h"

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"

namespace infini_train {
namespace {

thread_local RandomTape::Scope *current_scope = nullptr;

Generator::State Advanced(Generator::State state, uint64_t blocks) {
    state.offset += blocks;
    return state;
}

}  // namespace

RandomTape::Scope::Scope() : outer_(current_scope) {
    current_scope = this;
}

RandomTape::Scope::~Scope() {
    current_scope = outer_;
}

RandomTape::Scope *RandomTape::Scope::Current() {
    return current_scope;
}

void RandomTape::Append(const Generator &generator, Generator::State state, uint64_t blocks) {
    if (!runs_.empty()) {
        Run &last = runs_.back();
        if (last.generator == &generator && last.blocks == blocks &&
            Advanced(last.first, last.blocks * last.times) == state) {
            ++last.times;
            return;
        }
    }
    runs_.push_back({&generator, state, blocks, 1});
}

Generator::State RandomTape::Recording::Draw(Generator &generator, uint64_t blocks) {
    const Generator::State state = outer_ != nullptr ? outer_->Draw(generator, blocks) : generator.Advance(blocks);
    tape_->Append(generator, state, blocks);
    return state;
}

Generator::State RandomTape::Recording::Look(const Generator &generator) {
    const Generator::State state = outer_ != nullptr ? outer_->Look(generator) : generator.Now();
    tape_->Append(generator, state, 0);
    return state;
}

Generator::State RandomTape::Replay::Next(const Generator &generator, uint64_t blocks) {
    if (run_ == tape_.runs_.size()) {
        Throw<AutogradError>("Generator: {} more blocks of random numbers are drawn than the first time", blocks);
    }
    const Run &run = tape_.runs_[run_];
    if (run.generator != &generator || run.blocks != blocks) {
        Throw<AutogradError>("Generator: {} blocks of random numbers are drawn where the first time it was {}{}",
                             blocks, run.blocks, run.generator != &generator ? " from another generator" : "");
    }
    const Generator::State state = Advanced(run.first, run.blocks * in_run_);
    if (++in_run_ == run.times) {
        ++run_;
        in_run_ = 0;
    }
    return state;
}

}  // namespace infini_train
