#include "test/operator_cases/fixture.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <regex>

#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/io/safetensors.h"

namespace infini_train::test {
namespace {

void Put(TensorList *list, size_t position, const TensorPtr &tensor) {
    list->resize(std::max(list->size(), position + 1));
    (*list)[position] = tensor;
}

}  // namespace

const Fixtures &AllFixtures() {
    static const Fixtures all = [] {
        Fixtures fixtures;
        const std::regex pattern("(.*/.*)/(.*)/(in|out|go|gi)([0-9]+)");
        for (const auto &[name, tensor] : io::LoadSafetensors("test/fixtures/operators.safetensors")) {
            std::smatch parts;
            if (!std::regex_match(name, parts, pattern)) {
                throw ValueError("unexpected name in the fixtures: " + name);
            }
            Fixture &fixture = fixtures[parts[1]][parts[2]];
            const size_t position = std::stoul(parts[4]);
            if (parts[3] == "gi") {
                fixture.grad_inputs[position] = tensor;
            } else {
                Put(parts[3] == "in"    ? &fixture.inputs
                    : parts[3] == "out" ? &fixture.outputs
                                        : &fixture.grad_outputs,
                    position, tensor);
            }
        }
        return fixtures;
    }();
    return all;
}

TensorList Inputs(const Fixture &fixture, DataType dtype, Device device, bool strided) {
    TensorList inputs;
    for (size_t i = 0; i < fixture.inputs.size(); ++i) {
        const TensorPtr &from = fixture.inputs[i];
        const bool real = from->Dtype() == DataType::kFLOAT64;
        TensorPtr input = (real ? from->To(dtype) : from)->Clone()->To(device);
        if (strided) {
            std::vector<int64_t> wide = input->Dims();
            wide.push_back(3);
            auto gaps = Tensor::Zeros(wide, input->Dtype(), device)->Select(-1, 1);
            input = gaps->Copy_(input)->Detach();
        }
        if (fixture.grad_inputs.count(i) != 0 && IsFloatingPoint(input->Dtype())) {
            input->set_requires_grad(true);
        }
        inputs.push_back(input);
    }
    return inputs;
}

Result RunRow(const OperatorRow &row, const Fixture &fixture, const TensorList &inputs) {
    Result result;
    result.outputs = row.run(inputs);
    TensorList roots, gradients, wanted;
    std::vector<size_t> positions;
    for (const auto &output : result.outputs) {
        if (output->requires_grad()) {
            gradients.push_back(fixture.grad_outputs.at(roots.size())->To(output->Dtype())->To(output->GetDevice()));
            roots.push_back(output);
        }
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i]->requires_grad()) {
            wanted.push_back(inputs[i]);
            positions.push_back(i);
        }
    }
    if (!roots.empty() && !wanted.empty()) {
        const TensorList grads = autograd::Grad(roots, wanted, gradients, std::nullopt, false, /*allow_unused=*/true);
        for (size_t i = 0; i < grads.size(); ++i) {
            result.grad_inputs[positions[i]] = grads[i] != nullptr ? grads[i] : Tensor::ZerosLike(wanted[i]);
        }
    }
    return result;
}

::testing::AssertionResult Near(const TensorPtr &actual, const TensorPtr &expected, double tolerance) {
    if (actual->Dims() != expected->Dims()) {
        return ::testing::AssertionFailure() << "dims of " << *actual << " and " << *expected;
    }
    const auto a = actual->Detach()->ToVector<double>(), e = expected->ToVector<double>();
    for (size_t i = 0; i < a.size(); ++i) {
        if (!(std::abs(a[i] - e[i]) <= tolerance * (1 + std::abs(e[i]))) && !(std::isnan(a[i]) && std::isnan(e[i])) &&
            a[i] != e[i]) {
            return ::testing::AssertionFailure() << "element " << i << ": " << a[i] << ", expected " << e[i];
        }
    }
    return ::testing::AssertionSuccess();
}

std::string TestName(const ::testing::TestParamInfo<OperatorRow> &info) {
    std::string name = info.param.name;
    for (char &c : name) {
        c = std::isalnum(static_cast<unsigned char>(c)) ? c : c == '-' ? 'm' : '_';
    }
    return name;
}

}  // namespace infini_train::test
