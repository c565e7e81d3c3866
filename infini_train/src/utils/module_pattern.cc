#include "infini_train/include/utils/module_pattern.h"

#include <algorithm>
#include <cstddef>
#include <unordered_set>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/utils/glob.h"

namespace infini_train::utils {
namespace {

constexpr size_t kNearPaths = 5;

// All paths, also of modules that are registered in several places.
void Walk(const std::string &path, const std::shared_ptr<nn::Module> &module, NamedModuleList *all) {
    all->emplace_back(path, module);
    for (const auto &[name, child] : module->NamedChildren()) {
        Walk(path.empty() ? name : path + "." + name, child, all);
    }
}

// `blocks.0.attn (Attention), ...`: what comes nearest to a pattern.
std::string Near(const std::string &pattern, const NamedModuleList &all) {
    const size_t colon = pattern.find(':');
    const std::string path_pattern = pattern.substr(0, colon);
    const std::string type_pattern = colon == std::string::npos ? "*" : pattern.substr(colon + 1);
    std::vector<std::pair<size_t, size_t>> order;  // distance, position
    for (size_t i = 0; i < all.size(); ++i) {
        const size_t path_distance = path_pattern.empty() ? 0 : GlobDistance(path_pattern, all[i].first);
        order.emplace_back(path_distance + GlobDistance(type_pattern, all[i].second->type()), i);
    }
    std::sort(order.begin(), order.end());
    std::string near;
    for (size_t i = 0; i < std::min(order.size(), kNearPaths); ++i) {
        const auto &[path, module] = all[order[i].second];
        near += (near.empty() ? "" : ", ") + (path.empty() ? "the root" : path) + " (" + module->type() + ")";
    }
    return near;
}

}  // namespace

ModuleSelector::Rule::Rule(const std::string &pattern) : text(pattern) {
    std::string path = pattern;
    if (path.starts_with('!')) {
        excludes = true;
        text.erase(0, 1);
        path.erase(0, 1);
    }
    if (const size_t colon = path.find(':'); colon != std::string::npos) {
        types = ExpandBraces(path.substr(colon + 1));
        path.erase(colon);
        path = path.empty() ? "**" : path;
    }
    for (const auto &alternative : ExpandBraces(path)) {
        paths.push_back(SplitPath(alternative));
        for (const auto &name : paths.back()) {
            if (name.empty()) {
                Throw<ValueError>("ModuleSelector: '{}' has an empty name between its dots", text);
            }
            if (name != "**" && name.find("**") != std::string::npos) {
                Throw<ValueError>("ModuleSelector: '**' stands for whole names, got '{}' in '{}'", name, text);
            }
            ExpandBraces(name);  // complains of a class that a dot has split
        }
    }
}

bool ModuleSelector::Rule::Matches(const std::string &path, const nn::Module &module) const {
    const auto type_matches = [&](const std::string &type) { return MatchGlob(type, module.type()); };
    if (!types.empty() && std::none_of(types.begin(), types.end(), type_matches)) {
        return false;
    }
    const auto names = SplitPath(path);
    return std::any_of(paths.begin(), paths.end(), [&](const auto &pattern) { return MatchPath(pattern, names); });
}

ModuleSelector::ModuleSelector(const char *pattern) : ModuleSelector(std::string(pattern)) {}

ModuleSelector::ModuleSelector(const std::string &pattern) : ModuleSelector(std::vector{pattern}) {}

ModuleSelector::ModuleSelector(std::initializer_list<std::string> patterns)
    : ModuleSelector(std::vector<std::string>(patterns)) {}

ModuleSelector::ModuleSelector(const std::vector<std::string> &patterns) {
    for (const auto &pattern : patterns) {
        rules_.emplace_back(pattern);
    }
    if (std::all_of(rules_.begin(), rules_.end(), [](const Rule &rule) { return rule.excludes; })) {
        throw ValueError("ModuleSelector: expected a pattern that says which modules, got none, or exclusions only");
    }
}

ModuleSelector ModuleSelector::Optional() const {
    ModuleSelector selector = *this;
    selector.optional_ = true;
    return selector;
}

void ModuleSelector::CheckMatched(const std::vector<bool> &matched, bool any, const NamedModuleList &all) const {
    if (optional_) {
        return;
    }
    const std::string root = all.front().second->Describe();
    for (size_t i = 0; i < rules_.size(); ++i) {
        if (!matched[i]) {
            Throw<IndexError>("MatchModules: no module of {} matches '{}'; near are: {}", root, rules_[i].text,
                              Near(rules_[i].text, all));
        }
    }
    if (!any && filter_ == nullptr) {
        Throw<IndexError>("MatchModules: the exclusions leave no module of {} that matches '{}'", root,
                          rules_.front().text);
    }
    if (!any) {
        Throw<IndexError>("MatchModules: no module of {} matches '{}' and {}; near are: {}", root, rules_.front().text,
                          filter_name_, Near(rules_.front().text, all));
    }
}

NamedModuleList MatchModules(nn::Module &root, const ModuleSelector &selector) {
    NamedModuleList all;
    Walk("", root.NamedModules().front().second, &all);
    std::vector<bool> matched(selector.rules_.size());
    std::unordered_set<const nn::Module *> excluded;
    NamedModuleList included;
    for (const auto &[path, module] : all) {
        bool wanted = false;
        for (size_t i = 0; i < selector.rules_.size(); ++i) {
            const auto &rule = selector.rules_[i];
            if (!rule.Matches(path, *module)) {
                continue;
            }
            matched[i] = true;
            wanted = wanted || !rule.excludes;
            if (rule.excludes) {
                excluded.insert(module.get());
            }
        }
        if (wanted && (selector.filter_ == nullptr || selector.filter_(path, *module))) {
            included.emplace_back(path, module);
        }
    }
    std::unordered_set<const nn::Module *> seen = std::move(excluded);
    std::erase_if(included, [&](const auto &entry) { return !seen.insert(entry.second.get()).second; });
    selector.CheckMatched(matched, !included.empty(), all);
    return included;
}

NamedModuleList LeafModules(nn::Module &root) {
    NamedModuleList leaves;
    for (auto &named : root.NamedModules()) {
        if (named.second->NamedChildren().empty()) {
            leaves.push_back(std::move(named));
        }
    }
    return leaves;
}

}  // namespace infini_train::utils
