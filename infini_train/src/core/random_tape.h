#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "infini_train/include/core/generator.h"

namespace infini_train {

/// What one thread draws from generators, written down so that it can be drawn again. Only the thread that records or
/// replays is concerned: others draw from the same generators at the same time, and neither they nor the generators
/// notice. Scopes nest: a recording within a replay writes down what is replayed, a recording around one nothing of it.
class RandomTape {
public:
    class Scope {
    public:
        Scope();
        virtual ~Scope();
        Scope(const Scope &) = delete;
        Scope &operator=(const Scope &) = delete;

        /// The innermost one of this thread, or null.
        static Scope *Current();

        /// What Generator::Reserve and Generator::GetState give.
        virtual Generator::State Draw(Generator &generator, uint64_t blocks) = 0;
        virtual Generator::State Look(const Generator &generator) = 0;
        /// Whether draws leave the generators alone.
        virtual bool IsReplay() const = 0;

    protected:
        Scope *const outer_;
    };

    /// Writes down what this thread draws, behind what is there.
    class Recording : public Scope {
    public:
        explicit Recording(RandomTape *tape) : tape_(tape) {}
        Generator::State Draw(Generator &generator, uint64_t blocks) override;
        Generator::State Look(const Generator &generator) override;
        bool IsReplay() const override { return outer_ != nullptr && outer_->IsReplay(); }

    private:
        RandomTape *const tape_;
    };

    /// Gives this thread what is written down, from the start, in place of new numbers. Throws AutogradError for a draw
    /// from another generator or of another size. The tape may be replayed by several threads at once.
    class Replay : public Scope {
    public:
        explicit Replay(const RandomTape &tape) : tape_(tape) {}
        Generator::State Draw(Generator &generator, uint64_t blocks) override { return Next(generator, blocks); }
        Generator::State Look(const Generator &generator) override { return Next(generator, 0); }
        bool IsReplay() const override { return true; }

    private:
        Generator::State Next(const Generator &generator, uint64_t blocks);

        const RandomTape &tape_;
        size_t run_ = 0;       // where the next draw is
        uint64_t in_run_ = 0;  // and which of the run
    };

private:
    // Draws of the same size, one right behind the other; a look at the state is a draw of nothing.
    struct Run {
        const Generator *generator;
        Generator::State first;
        uint64_t blocks;
        uint64_t times;
    };

    void Append(const Generator &generator, Generator::State state, uint64_t blocks);

    std::vector<Run> runs_;
};

}  // namespace infini_train
