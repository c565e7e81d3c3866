#pragma once

#include <string>

namespace cuda_emulation {

/// Where an instruction comes from.
struct Site {
    std::string function;
    std::string file;  ///< without its folder
    int line = 0;
    std::string chain;  ///< file:line, and those that it was inlined into

    friend bool operator==(const Site &, const Site &) = default;
};

/// Of the call or access that ends before `pc`: the innermost source line outside the emulation's own headers.
const Site &SiteOf(const void *pc);

/// A kernel's name without its parameters.
const std::string &FunctionName(const void *function);

}  // namespace cuda_emulation
