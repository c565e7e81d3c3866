#include "test/cuda_emulation/runtime/report.h"

#include <cstdio>
#include <cstdlib>
#include <set>
#include <tuple>
#include <unistd.h>
#include <utility>

#include "test/cuda_emulation/runtime/scheduler.h"

namespace cuda_emulation {
namespace {

std::vector<Report> reports;
std::set<std::tuple<Defect, const void *, const void *>> seen;
cudaError_t sticky = cudaSuccess;

// A program that doesn't ask must not end as if all were well.
void CheckAtExit() {
    if (!reports.empty()) {
        std::fprintf(stderr, "cuda_emulation: %zu defects were found, see above\n", reports.size());
        std::fflush(nullptr);
        _exit(3);
    }
}

}  // namespace

const char *ToString(Defect defect) {
    switch (defect) {
        case Defect::kIllegalAddress:
            return "illegal address";
        case Defect::kOutOfBounds:
            return "out of bounds";
        case Defect::kUninitialised:
            return "uninitialised";
        case Defect::kRace:
            return "race";
        case Defect::kMisaligned:
            return "misaligned";
        case Defect::kNeverCompletes:
            return "synchronisation never completes";
        case Defect::kDivergentBarrier:
            return "divergent barrier";
        case Defect::kWrongMask:
            return "wrong mask";
        case Defect::kTrap:
            return "trap";
        case Defect::kUndefined:
            return "undefined behaviour";
        case Defect::kHostAccess:
            return "host access";
        case Defect::kWrongFree:
            return "wrong free";
    }
    return "?";
}

void AddReport(Defect defect, const void *pc, const std::string &text, cudaError_t error, const void *other_pc) {
    const InEmulation scope;
    if (error != cudaSuccess && sticky == cudaSuccess) {
        sticky = error;
    }
    const void *const kernel = CurrentKernel();
    if (!seen.insert({defect, pc, pc == nullptr ? kernel : nullptr}).second) {
        return;
    }
    static const int registered = std::atexit(&CheckAtExit);
    (void)registered;
    Report report{defect, kernel != nullptr ? FunctionName(kernel) : "", SiteOf(pc), SiteOf(other_pc), ""};
    report.text = std::string(ToString(defect)) + ": " + text;
    if (!report.site.chain.empty()) {
        report.text += ", at " + report.site.chain;
    }
    if (const DeviceThread *const thread = CurrentThread()) {
        report.text += ", by " + Describe(*thread);
    }
    if (!report.kernel.empty()) {
        report.text += ", in " + report.kernel;
    }
    if (!report.other.chain.empty()) {
        report.text += "; the earlier access is at " + report.other.chain;
    }
    std::fprintf(stderr, "cuda_emulation: %s\n", report.text.c_str());
    reports.push_back(std::move(report));
}

std::vector<Report> TakeReports() {
    sticky = cudaSuccess;
    seen.clear();
    return std::exchange(reports, {});
}

size_t NumReports() {
    return reports.size();
}

cudaError_t StickyError() {
    return sticky;
}

}  // namespace cuda_emulation
