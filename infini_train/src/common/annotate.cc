#include "infini_train/src/common/annotate.h"

#include <new>
#include <stdexcept>
#include <typeinfo>

#include <glog/logging.h>

namespace infini_train {
namespace {

template <typename... Exceptions>
[[noreturn]] void RethrowAs(const std::exception &exception, const std::string &text) {
    const auto try_one = [&]<typename E>() {
        if (typeid(exception) == typeid(E)) {
            throw E(text);
        }
    };
    (try_one.template operator()<Exceptions>(), ...);
    throw;
}

}  // namespace

void RethrowAnnotated(const std::string &context) {
    try {
        throw;
    } catch (const std::exception &exception) {
        RethrowAs<std::runtime_error, std::logic_error, std::invalid_argument, std::out_of_range, std::domain_error,
                  std::length_error, std::range_error, std::overflow_error, std::underflow_error>(
            exception, std::string(exception.what()) + " [" + context + "]");
    }
}

void LogDropped(const char *who) noexcept {
    try {
        throw;
    } catch (const std::exception &exception) {
        LOG(WARNING) << who << ": dropped, since another exception is on its way: " << exception.what();
    } catch (...) {
        LOG(WARNING) << who << ": dropped an exception, since another one is on its way";
    }
}

}  // namespace infini_train
