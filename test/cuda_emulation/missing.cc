#include "test/cuda_emulation/missing.h"

namespace infini_train::test {

const std::vector<std::string> &RowsWithoutCuda() {
    static const std::vector<std::string> rows = {};
    return rows;
}

}  // namespace infini_train::test
