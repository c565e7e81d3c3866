#include "infini_train/include/nn/modules/container.h"

#include "infini_train/src/common/format.h"

namespace infini_train::nn {

void NumberedModules::Append(std::shared_ptr<Module> module) {
    if (module == nullptr) {
        Throw<ValueError>("{}: expected a module at position {}, got null", type(), size());
    }
    RegisterModule(std::to_string(size()), std::move(module));
}

const std::shared_ptr<Module> &NumberedModules::operator[](int64_t i) const {
    const auto count = static_cast<int64_t>(size());
    if (i < -count || i >= count) {
        Throw<IndexError>("{}: no module {}; there are {}", Describe(), i, count);
    }
    return children()[static_cast<size_t>(i < 0 ? i + count : i)].second;
}

Sequential::Sequential(const std::vector<std::shared_ptr<Module>> &modules) : NumberedModules(kType) {
    for (const auto &module : modules) {
        Append(module);
    }
}

TensorList Sequential::Forward(const TensorList &inputs) {
    if (empty()) {
        return inputs;
    }
    TensorList outputs = (*children()[0].second)(inputs);
    for (size_t i = 1; i < size(); ++i) {
        outputs = (*children()[i].second)(outputs);
    }
    return outputs;
}

std::shared_ptr<Module> Sequential::CloneImpl() const {
    return std::make_shared<Sequential>(*this);
}

ModuleList::ModuleList(const std::vector<std::shared_ptr<Module>> &modules) : NumberedModules(kType) {
    Extend(modules);
}

void ModuleList::Extend(const std::vector<std::shared_ptr<Module>> &modules) {
    for (const auto &module : modules) {
        Append(module);
    }
}

TensorList ModuleList::Forward(const TensorList & /*inputs*/) {
    throw NotImplementedError(
        "ModuleList: a list can't be called; call its modules one by one, or use Sequential: "
        "for (const auto &layer : *list) { x = (*layer)(x); }");
}

std::shared_ptr<Module> ModuleList::CloneImpl() const {
    return std::make_shared<ModuleList>(*this);
}

ModuleDict::ModuleDict(const std::vector<std::pair<std::string, std::shared_ptr<Module>>> &modules)
    : CloneableModule(kType) {
    for (const auto &[name, module] : modules) {
        Insert(name, module);
    }
}

void ModuleDict::Insert(const std::string &name, std::shared_ptr<Module> module) {
    if (module == nullptr) {
        Throw<ValueError>("ModuleDict: expected a module under the name '{}', got null", name);
    }
    RegisterModule(name, std::move(module));
}

bool ModuleDict::Contains(const std::string &name) const {
    return std::any_of(children().begin(), children().end(), [&](const auto &entry) { return entry.first == name; });
}

TensorList ModuleDict::Forward(const TensorList & /*inputs*/) {
    throw NotImplementedError("ModuleDict: a dict can't be called; call one of its modules: (*(*dict)[name])(inputs)");
}

}  // namespace infini_train::nn
