#pragma once

#include <exception>
#include <string>

#include <gtest/gtest.h>

namespace infini_train::test {

/// The message of the `E` that `body` throws; a failure if it throws none, or another exception.
template <typename E, typename Body>
std::string MessageOf(Body &&body) {
    try {
        body();
    } catch (const E &error) {
        return error.what();
    } catch (const std::exception &error) {
        ADD_FAILURE() << "another exception: " << error.what();
        return "";
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
}

}  // namespace infini_train::test
