#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/nn/modules/module.h"

namespace infini_train::nn {

/// The modules of a container in order, for `for (const auto &layer : *layers)`.
class ModuleIterator {
public:
    using Base = std::vector<std::pair<std::string, std::shared_ptr<Module>>>::const_iterator;
    using iterator_category = std::forward_iterator_tag;
    using value_type = std::shared_ptr<Module>;
    using difference_type = std::ptrdiff_t;
    using pointer = const value_type *;
    using reference = const value_type &;

    ModuleIterator() = default;
    explicit ModuleIterator(Base at) : at_(at) {}

    reference operator*() const { return at_->second; }
    pointer operator->() const { return &at_->second; }
    ModuleIterator &operator++() {
        ++at_;
        return *this;
    }
    ModuleIterator operator++(int) { return ModuleIterator(at_++); }
    friend bool operator==(const ModuleIterator &, const ModuleIterator &) = default;

private:
    Base at_;
};

/// What Sequential and ModuleList have in common: children named "0", "1", ... in order.
class INFINI_TRAIN_EXPORT NumberedModules : public Module {
public:
    /// Adds a module at the end. Throws ValueError for null.
    void Append(std::shared_ptr<Module> module);
    size_t size() const { return children().size(); }
    bool empty() const { return children().empty(); }
    /// Counts from the end if negative; IndexError for one that isn't there.
    const std::shared_ptr<Module> &operator[](int64_t i) const;
    ModuleIterator begin() const { return ModuleIterator(children().begin()); }
    ModuleIterator end() const { return ModuleIterator(children().end()); }

protected:
    using Module::Module;
    NumberedModules(const NumberedModules &) = default;
};

/// Runs modules one after the other, each given what the one before it returned; no modules return the inputs.
///
///     auto net = std::make_shared<nn::Sequential>(std::make_shared<nn::Linear>(784, 30), std::make_shared<nn::Relu>(),
///                                                 std::make_shared<nn::Linear>(30, 10));
class INFINI_TRAIN_EXPORT Sequential : public NumberedModules {
public:
    static constexpr char kType[] = "Sequential";

    Sequential() : NumberedModules(kType) {}
    explicit Sequential(const std::vector<std::shared_ptr<Module>> &modules);
    template <std::derived_from<Module>... M>
    requires(sizeof...(M) > 0) explicit Sequential(std::shared_ptr<M>... modules) : NumberedModules(kType) {
        (Append(std::move(modules)), ...);
    }

    TensorList Forward(const TensorList &inputs) override;

protected:
    std::shared_ptr<Module> CloneImpl() const override;
};

/// Modules in a list, so that their parameters are found; what is done with them is up to the module that holds it.
class INFINI_TRAIN_EXPORT ModuleList : public NumberedModules {
public:
    static constexpr char kType[] = "ModuleList";

    ModuleList() : NumberedModules(kType) {}
    explicit ModuleList(const std::vector<std::shared_ptr<Module>> &modules);

    void Extend(const std::vector<std::shared_ptr<Module>> &modules);
    /// Throws NotImplementedError: a list is not called, its modules are.
    TensorList Forward(const TensorList &inputs) override;

protected:
    std::shared_ptr<Module> CloneImpl() const override;
};

/// Modules by name, in order of insertion.
class INFINI_TRAIN_EXPORT ModuleDict : public CloneableModule<ModuleDict> {
public:
    static constexpr char kType[] = "ModuleDict";

    ModuleDict() : CloneableModule(kType) {}
    explicit ModuleDict(const std::vector<std::pair<std::string, std::shared_ptr<Module>>> &modules);
    /// From a std::map or std::unordered_map; sorted by name, so that the order doesn't depend on hashes.
    template <typename Map>
    requires std::convertible_to<typename Map::mapped_type, std::shared_ptr<Module>>
    explicit ModuleDict(const Map &modules) : ModuleDict(Sorted({modules.begin(), modules.end()})) {}

    /// Throws ValueError for null and for a name that is empty, contains a dot or is taken.
    void Insert(const std::string &name, std::shared_ptr<Module> module);
    bool Contains(const std::string &name) const;
    size_t size() const { return children().size(); }
    bool empty() const { return children().empty(); }
    /// IndexError, with the names that there are, for one that isn't there.
    std::shared_ptr<Module> operator[](const std::string &name) const { return module(name); }
    ModuleIterator begin() const { return ModuleIterator(children().begin()); }
    ModuleIterator end() const { return ModuleIterator(children().end()); }

    /// Throws NotImplementedError: a dict is not called, its modules are.
    TensorList Forward(const TensorList &inputs) override;

private:
    using Entries = std::vector<std::pair<std::string, std::shared_ptr<Module>>>;
    static Entries Sorted(Entries entries) {
        std::sort(entries.begin(), entries.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
        return entries;
    }
};

}  // namespace infini_train::nn
