#pragma once

#include <exception>
#include <string>

#include "infini_train/include/common/error.h"

namespace infini_train {

/// Rethrows the exception being handled, a std::exception that isn't an Error. Those of <stdexcept> are thrown again as
/// a class derived from theirs with ` [context]` behind the text; any other type stays as it is.
[[noreturn]] void RethrowAnnotated(const std::string &context);

/// Runs `body()`; what it throws keeps its type and text and gets `describe()` as context.
template <typename Describe, typename Body>
decltype(auto) WithContext(const Describe &describe, Body &&body) {
    try {
        return body();
    } catch (Error &error) {
        error.AddContext(describe());
        throw;
    } catch (const std::exception &) {
        RethrowAnnotated(describe());
    }
}

/// Logs the exception being handled, which is dropped because another one is on its way.
void LogDropped(const char *who) noexcept;

}  // namespace infini_train
