#include "infini_train/include/autograd/gradcheck.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/dtype_dispatch.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"

namespace infini_train::autograd {
namespace {

constexpr const char *kName = "GradCheck";

// One row an element of the input, one column an element of the output.
using Jacobian = std::vector<std::vector<double>>;

void CheckInputs(const TensorList &inputs, const GradCheckOptions &options) {
    bool any = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] == nullptr || !inputs[i]->requires_grad()) {
            continue;
        }
        any = true;
        if (inputs[i]->Dtype() != DataType::kFLOAT64 && !options.any_dtype) {
            Throw<DtypeError>("{}: expected float64 for input {}, got {}; finite differences need its precision", kName,
                              i, ToString(inputs[i]->Dtype()));
        }
        for (int64_t d = 0; d < inputs[i]->NumDims(); ++d) {
            if (inputs[i]->Strides()[d] == 0 && inputs[i]->Dims()[d] > 1) {
                Throw<ValueError>("{}: input {} overlaps itself; use Contiguous", kName, i);
            }
        }
    }
    if (!any) {
        Throw<ValueError>("{}: no input requires a gradient", kName);
    }
}

// The address of an element by its number in row-major order.
void *Element(Tensor &tensor, int64_t index) {
    int64_t offset = 0;
    for (int64_t d = tensor.NumDims() - 1; d >= 0; --d) {
        offset += index % tensor.Dims()[d] * tensor.Strides()[d];
        index /= tensor.Dims()[d];
    }
    return static_cast<char *>(tensor.DataPtr()) + offset * static_cast<int64_t>(SizeOf(tensor.Dtype()));
}

std::vector<double> Flat(const TensorPtr &tensor) {
    return tensor->Detach()->ToVector<double>();
}

bool IsChecked(const TensorPtr &output) {
    return output != nullptr && output->requires_grad();
}

// Copies at once: an output may share memory with the input that the next difference changes.
std::vector<std::vector<double>> FlatOutputs(const TensorList &all, const std::vector<size_t> &positions) {
    std::vector<std::vector<double>> values;
    for (const size_t position : positions) {
        values.push_back(Flat(all[position]));
    }
    return values;
}

/// Of the outputs at `outputs` with respect to one input, by central differences.
std::vector<Jacobian> Numerical(const CheckedFunction &function, const TensorList &inputs, size_t input,
                                const std::vector<size_t> &outputs, double eps) {
    Tensor &x = *inputs[input];
    std::vector<Jacobian> jacobians(outputs.size(), Jacobian(static_cast<size_t>(x.NumElements())));
    for (int64_t row = 0; row < x.NumElements(); ++row) {
        DispatchFloatingDtype(x.Dtype(), kName, [&]<typename T>() {
            T &element = *static_cast<T *>(Element(x, row));
            const T original = element;
            const auto value = Scalar(original).To<double>();
            // What was really added, after rounding.
            element = Scalar(value + eps).To<T>();
            const auto upper = Scalar(element).To<double>();
            const auto above = FlatOutputs(function(inputs), outputs);
            element = Scalar(value - eps).To<T>();
            const auto lower = Scalar(element).To<double>();
            const auto below = FlatOutputs(function(inputs), outputs);
            element = original;
            for (size_t o = 0; o < outputs.size(); ++o) {
                for (size_t k = 0; k < above[o].size(); ++k) {
                    jacobians[o][static_cast<size_t>(row)].push_back((above[o][k] - below[o][k]) / (upper - lower));
                }
            }
        });
    }
    return jacobians;
}

TensorPtr OneHot(const Tensor &like, int64_t position) {
    auto tensor = Tensor::Zeros(like.Dims(), like.Dtype(), like.GetDevice());
    tensor->View({-1})->Select(0, position)->Fill_(1);
    return tensor;
}

/// Of one output with respect to each of `inputs`, a backward pass an element.
std::vector<Jacobian> Analytical(const TensorPtr &output, const TensorList &inputs) {
    std::vector<Jacobian> jacobians;
    for (const auto &input : inputs) {
        jacobians.emplace_back(static_cast<size_t>(input->NumElements()));
    }
    for (int64_t k = 0; k < output->NumElements(); ++k) {
        const TensorList grads = Grad({output}, inputs, {OneHot(*output, k)}, /*retain_graph=*/true,
                                      /*create_graph=*/false, /*allow_unused=*/true);
        for (size_t i = 0; i < inputs.size(); ++i) {
            const auto column = grads[i] != nullptr ? Flat(grads[i]) : std::vector<double>(jacobians[i].size(), 0.0);
            for (size_t row = 0; row < column.size(); ++row) {
                jacobians[i][row].push_back(column[row]);
            }
        }
    }
    return jacobians;
}

GradCheckResult Failure(std::string message) {
    return {false, std::move(message)};
}

bool Close(double a, double b, const GradCheckOptions &options) {
    return std::abs(a - b) <= options.atol + options.rtol * std::abs(b) || (std::isnan(a) && std::isnan(b)) || a == b;
}

GradCheckResult Compare(const Jacobian &analytical, const Jacobian &numerical, size_t input, size_t output,
                        const GradCheckOptions &options) {
    for (size_t row = 0; row < numerical.size(); ++row) {
        for (size_t k = 0; k < numerical[row].size(); ++k) {
            if (!Close(analytical[row][k], numerical[row][k], options)) {
                return Failure(fmt::format(
                    "output {}, element {}, with respect to input {}, element {}: analytical {:.8g}, numerical {:.8g}",
                    output, k, input, row, analytical[row][k], numerical[row][k]));
            }
        }
    }
    return {};
}

// A gradient of the output that is a view with gaps must give the same as a dense one.
GradCheckResult CheckStridedGradient(const TensorPtr &output, const TensorList &inputs, size_t index,
                                     const GradCheckOptions &options) {
    Generator generator(7);
    const auto dense = Tensor::Rand(output->Dims(), output->Dtype(), output->GetDevice(), &generator);
    std::vector<int64_t> wide = output->Dims();
    wide.push_back(2);
    const auto strided = Tensor::Zeros(wide, output->Dtype(), output->GetDevice())->Select(-1, 1);
    strided->Copy_(dense);
    const auto run = [&](const TensorPtr &gradient) {
        return Grad({output}, inputs, {gradient}, /*retain_graph=*/true, false, /*allow_unused=*/true);
    };
    const TensorList expected = run(dense), actual = run(strided);
    for (size_t i = 0; i < inputs.size(); ++i) {
        if (expected[i] == nullptr || actual[i] == nullptr) {
            continue;
        }
        const std::vector<double> a = Flat(actual[i]), b = Flat(expected[i]);
        for (size_t k = 0; k < a.size(); ++k) {
            if (!Close(a[k], b[k], options)) {
                return Failure(
                    fmt::format("output {}: a gradient with gaps gives {:.8g} for input {}, element {}, a dense "
                                "one {:.8g}",
                                index, a[k], i, k, b[k]));
            }
        }
    }
    return {};
}

GradCheckResult CheckDeterministic(const CheckedFunction &function, const TensorList &inputs,
                                   const TensorList &outputs) {
    const TensorList again = function(inputs);
    for (size_t o = 0; o < outputs.size(); ++o) {
        if (!IsChecked(outputs[o])) {
            continue;
        }
        const auto first = Flat(outputs[o]), second = Flat(again[o]);
        const bool same = std::equal(first.begin(), first.end(), second.begin(), second.end(),
                                     [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); });
        if (!same) {
            return Failure(fmt::format("output {} differs between two calls with the same inputs", o));
        }
    }
    return {};
}

}  // namespace

GradCheckResult GradCheck(const CheckedFunction &function, const TensorList &inputs, const GradCheckOptions &options) {
    CheckInputs(inputs, options);
    const EnableGradGuard recording;
    const TensorList outputs = function(inputs);
    std::vector<size_t> checked_outputs, checked_inputs;
    TensorList wanted;
    for (size_t o = 0; o < outputs.size(); ++o) {
        if (IsChecked(outputs[o])) {
            checked_outputs.push_back(o);
        }
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] != nullptr && inputs[i]->requires_grad()) {
            checked_inputs.push_back(i);
            wanted.push_back(inputs[i]);
        }
    }
    if (checked_outputs.empty()) {
        return Failure("no output requires a gradient");
    }
    if (auto result = CheckDeterministic(function, inputs, outputs); !result) {
        return result;
    }
    std::vector<std::vector<Jacobian>> numerical;  // by input, by output
    for (const size_t i : checked_inputs) {
        numerical.push_back(Numerical(function, inputs, i, checked_outputs, options.eps));
    }
    for (size_t o = 0; o < checked_outputs.size(); ++o) {
        const TensorPtr &output = outputs[checked_outputs[o]];
        const std::vector<Jacobian> analytical = Analytical(output, wanted);
        for (size_t i = 0; i < checked_inputs.size(); ++i) {
            auto result = Compare(analytical[i], numerical[i][o], checked_inputs[i], checked_outputs[o], options);
            if (!result) {
                return result;
            }
        }
        if (auto result = CheckStridedGradient(output, wanted, checked_outputs[o], options); !result) {
            return result;
        }
    }
    return {};
}

GradCheckResult GradGradCheck(const CheckedFunction &function, const TensorList &inputs, const TensorList &grad_outputs,
                              const GradCheckOptions &options) {
    CheckInputs(inputs, options);
    const EnableGradGuard recording;
    const TensorList outputs = function(inputs);
    TensorList all = inputs;
    Generator generator(11);
    std::vector<size_t> checked;
    for (size_t o = 0; o < outputs.size(); ++o) {
        if (!IsChecked(outputs[o])) {
            continue;
        }
        const bool given = o < grad_outputs.size() && grad_outputs[o] != nullptr;
        all.push_back(given
                          ? grad_outputs[o]
                          : Tensor::Randn(outputs[o]->Dims(), outputs[o]->Dtype(), outputs[o]->GetDevice(), &generator)
                                ->RequiresGrad());
        checked.push_back(o);
    }
    const auto gradients = [&](const TensorList &arguments) {
        const TensorList own(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(inputs.size()));
        const TensorList made = function(own);
        TensorList roots, wanted;
        for (const size_t o : checked) {
            roots.push_back(made[o]);
        }
        for (const auto &input : own) {
            if (input != nullptr && input->requires_grad()) {
                wanted.push_back(input);
            }
        }
        const TensorList weights(arguments.begin() + static_cast<std::ptrdiff_t>(inputs.size()), arguments.end());
        return Grad(roots, wanted, weights, std::nullopt, /*create_graph=*/true, /*allow_unused=*/true);
    };
    auto result = GradCheck(gradients, all, options);
    if (!result) {
        result.message = "second derivative: " + result.message;
    }
    return result;
}

}  // namespace infini_train::autograd
