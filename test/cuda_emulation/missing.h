#pragma once

#include <string>
#include <vector>

namespace infini_train::test {

/// The rows of test/operator_cases for which CUDA lacks a kernel. A test fails for a row that is here and works, and
/// for one that isn't here and doesn't: the list only shrinks.
const std::vector<std::string> &RowsWithoutCuda();

}  // namespace infini_train::test
