#pragma once

#include <functional>
#include <string>
#include <utility>

#include "infini_train/include/nn/modules/module.h"

namespace infini_train::test {

/// A module made of a function.
class Lambda : public nn::Module {
public:
    using Body = std::function<TensorList(const TensorList &)>;

    explicit Lambda(Body body, const std::string &type = "Lambda") : Module(type), body_(std::move(body)) {}
    TensorList Forward(const TensorList &inputs) override { return body_(inputs); }

    using Module::RegisterBuffer;
    using Module::RegisterModule;
    using Module::RegisterParameter;

private:
    Body body_;
};

inline std::shared_ptr<Lambda> MakeModule(Lambda::Body body, const std::string &type = "Lambda") {
    return std::make_shared<Lambda>(std::move(body), type);
}

}  // namespace infini_train::test
