#include <ostream>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"

namespace infini_train::nn {
namespace {

std::string Listed(const char *what, const std::vector<std::string> &names) {
    return names.empty() ? "" : fmt::format("\n  {}: {}", what, fmt::join(names, ", "));
}

}  // namespace

StateDict Module::StateDict() const {
    nn::StateDict state;
    // Every name of a shared tensor is written, so that the state also fits a module that doesn't share it.
    const auto collect = [&](const auto &self, const Module &module, const std::string &prefix) -> void {
        for (const auto &[name, parameter] : module.parameters_) {
            if (parameter != nullptr) {
                state[prefix + name] = parameter->Detach();
            }
        }
        for (const auto &[name, buffer] : module.buffers_) {
            if (buffer.persistent) {
                state[prefix + name] = buffer.tensor->Detach();
            }
        }
        for (const auto &[name, child] : module.children_) {
            self(self, *child, prefix + name + ".");
        }
    };
    collect(collect, *this, "");
    return state;
}

LoadReport Module::LoadStateDict(const nn::StateDict &state, bool strict) {
    LoadReport report;
    std::vector<std::string> mismatched;
    const nn::StateDict own = StateDict();
    for (const auto &[name, tensor] : own) {
        const auto found = state.find(name);
        if (found == state.end() || found->second == nullptr) {
            report.missing.push_back(name);
        } else if (found->second->Dims() != tensor->Dims()) {
            mismatched.push_back(fmt::format("{} (expected {}, got {})", name, FormatDims(tensor->Dims()),
                                             FormatDims(found->second->Dims())));
        }
    }
    for (const auto &[name, tensor] : state) {
        if (own.find(name) == own.end()) {
            report.unexpected.push_back(name);
        }
    }
    if (!mismatched.empty() || (strict && !(report.missing.empty() && report.unexpected.empty()))) {
        Throw<ValueError>("{}: the state dict doesn't fit:{}{}{}", Describe(), Listed("missing", report.missing),
                          Listed("unexpected", report.unexpected), Listed("of other dims", mismatched));
    }
    const autograd::NoGradGuard no_grad;
    for (const auto &[name, tensor] : own) {
        const auto found = state.find(name);
        if (found != state.end() && found->second != nullptr) {
            tensor->Copy_(found->second->To(tensor->GetDevice()));
        }
    }
    return report;
}

std::string Module::Tree(const std::string &indent) const {
    std::string text = type_ + "(" + ExtraRepr();
    if (children_.empty()) {
        return text + ")";
    }
    text += "\n";
    for (const auto &[name, child] : children_) {
        text += indent + "  (" + name + "): " + child->Tree(indent + "  ") + "\n";
    }
    return text + indent + ")";
}

std::string Module::ToString() const {
    return Tree("");
}

std::ostream &operator<<(std::ostream &stream, const Module &module) {
    return stream << module.ToString();
}

}  // namespace infini_train::nn
