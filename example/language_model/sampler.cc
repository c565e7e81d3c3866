#include "example/language_model/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "infini_train/include/common/error.h"

namespace infini_train::example {
namespace {

// A token that may come, with its logit or, later, its probability times a constant.
struct Candidate {
    double score;
    text::TokenId id;
};

bool IsBetter(const Candidate &a, const Candidate &b) {
    return a.score > b.score || (a.score == b.score && a.id < b.id);
}

// Keeps `last` and what is better, in the order of the ids: so the choice doesn't depend on how a library partitions.
void KeepDownTo(const Candidate &last, std::vector<Candidate> *candidates) {
    std::erase_if(*candidates, [&](const Candidate &candidate) { return IsBetter(last, candidate); });
}

void KeepTopK(int64_t k, std::vector<Candidate> *candidates) {
    if (k == 0 || k >= static_cast<int64_t>(candidates->size())) {
        return;
    }
    std::vector<Candidate> best(static_cast<size_t>(k));
    std::partial_sort_copy(candidates->begin(), candidates->end(), best.begin(), best.end(), IsBetter);
    KeepDownTo(best.back(), candidates);
}

double Sum(const std::vector<Candidate> &candidates) {
    return std::accumulate(candidates.begin(), candidates.end(), 0.0,
                           [](double sum, const Candidate &candidate) { return sum + candidate.score; });
}

void KeepTopP(double p, std::vector<Candidate> *candidates) {
    if (p >= 1) {
        return;
    }
    const double total = Sum(*candidates), wanted = p * total;
    // Those with less than this have less than 1 - p together, so that the others reach p without them.
    const double negligible = (1 - p) * total / static_cast<double>(candidates->size());
    // Buckets by the leading bits, 256 for each power of two from 1, the best score, down: only the one in which p is
    // reached has to be sorted.
    const auto bucket_of = [](double score) {
        return static_cast<size_t>((std::bit_cast<uint64_t>(1.0) - std::bit_cast<uint64_t>(score)) >> 44);
    };
    std::vector<double> sums(bucket_of(negligible) + 1);
    for (const Candidate &candidate : *candidates) {
        if (candidate.score >= negligible) {
            sums[bucket_of(candidate.score)] += candidate.score;
        }
    }
    double sum = 0;
    size_t bucket = 0;
    for (; bucket < sums.size() && sum + sums[bucket] < wanted; ++bucket) {
        sum += sums[bucket];
    }
    std::vector<Candidate> ranked;
    std::copy_if(candidates->begin(), candidates->end(), std::back_inserter(ranked), [&](const Candidate &candidate) {
        return candidate.score >= negligible && bucket_of(candidate.score) == bucket;
    });
    std::sort(ranked.begin(), ranked.end(), IsBetter);
    for (const Candidate &candidate : ranked) {
        sum += candidate.score;
        if (sum >= wanted) {
            return KeepDownTo(candidate, candidates);
        }
    }
    // Reached with the last of the bucket, but for rounding.
    if (!ranked.empty()) {
        KeepDownTo(ranked.back(), candidates);
    }
}

}  // namespace

void PenalizeRepetition(std::span<const text::TokenId> text, double penalty, std::span<double> scores) {
    if (penalty == 1) {
        return;
    }
    std::vector<bool> seen(scores.size());
    for (const text::TokenId id : text) {
        const auto i = static_cast<size_t>(id);
        if (!seen[i]) {
            seen[i] = true;
            scores[i] = scores[i] < 0 ? scores[i] * penalty : scores[i] / penalty;
        }
    }
}

void CheckScores(const char *caller, std::span<const double> scores) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    bool has_number = false;
    for (size_t i = 0; i < scores.size(); ++i) {
        if (!(scores[i] < kInfinity)) {
            throw ValueError(fmt::format("{}: expected logits that are numbers, got {} for token {}", caller,
                                         std::isnan(scores[i]) ? "NaN" : "infinity", i));
        }
        has_number = has_number || scores[i] > -kInfinity;
    }
    if (!has_number) {
        throw ValueError(fmt::format("{}: expected logits that are numbers, got minus infinity for all", caller));
    }
}

text::TokenId ChooseToken(std::span<const double> logits, const SamplingOptions &options, Generator &generator) {
    const auto best = std::max_element(logits.begin(), logits.end());
    if (options.temperature == 0) {
        return static_cast<text::TokenId>(best - logits.begin());
    }
    std::vector<Candidate> candidates(logits.size());
    for (size_t i = 0; i < logits.size(); ++i) {
        candidates[i] = {logits[i], static_cast<text::TokenId>(i)};
    }
    KeepTopK(options.top_k, &candidates);
    for (Candidate &candidate : candidates) {
        candidate.score = std::exp((candidate.score - *best) / options.temperature);
    }
    KeepTopP(options.top_p, &candidates);
    double left = generator.NextDouble() * Sum(candidates);
    const Candidate *chosen = nullptr;
    for (const Candidate &candidate : candidates) {
        if (candidate.score > 0) {
            chosen = &candidate;
            left -= candidate.score;
            if (left < 0) {
                break;
            }
        }
    }
    return chosen->id;
}

}  // namespace infini_train::example
