#include "infini_train/include/autograd/dropout.h"

#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/dropout.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {
namespace {

// Inputs x and a mask give mask ? x * scale : 0, which is linear: its derivative is the same again.
class MaskScale : public Function {
public:
    static constexpr char kType[] = "MaskScale";

    explicit MaskScale(double scale) : Function(kType), scale_(scale) {}

    TensorList Forward(const TensorList &inputs) override {
        const auto input = ContiguousCopy(inputs[0]);
        auto output = Tensor::EmptyLike(input);
        Dispatch<kernels::MaskScale>(input->GetDevice(), Ref(output), Ref(input), Ref(inputs[1]), scale_);
        return {output};
    }

    void SetupContext(const TensorList &inputs, const TensorList &) override { ctx_.SaveForBackward({inputs[1]}); }

    TensorList Backward(const TensorList &grad_outputs) override {
        const auto mask = ctx_.GetSavedTensors()[0];
        return {std::make_shared<MaskScale>(scale_)->Apply({grad_outputs[0], mask})[0], nullptr};
    }

private:
    const double scale_;
};

void CheckProbability(double drop_probability) {
    if (!(drop_probability >= 0 && drop_probability <= 1)) {
        Throw<ValueError>("Dropout: expected a probability in [0, 1], got {}", drop_probability);
    }
}

}  // namespace

Dropout::Dropout(double drop_probability, bool training, Generator *generator)
    : Function(kType), drop_probability_(drop_probability), training_(training), generator_(generator) {
    CheckProbability(drop_probability);
}

double Dropout::Scale() const {
    return drop_probability_ < 1 ? 1 / (1 - drop_probability_) : 0;
}

TensorList Dropout::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    mask_ = nullptr;
    identity_ = !training_ || drop_probability_ == 0;
    if (identity_) {
        return {inputs[0]};
    }
    if (!IsFloatingPoint(inputs[0]->Dtype())) {
        Throw<DtypeError>("Dropout: expected a floating-point tensor, got {}", ToString(inputs[0]->Dtype()));
    }
    const auto input = ContiguousCopy(inputs[0]);
    auto output = Tensor::EmptyLike(input);
    mask_ = Tensor::EmptyLike(*input, DataType::kBOOL);
    Generator &generator = generator_ != nullptr ? *generator_ : DefaultGenerator();
    const auto state = generator.Reserve((static_cast<uint64_t>(input->NumElements()) + 3) / 4);
    Dispatch<kernels::DropoutForward>(input->GetDevice(), Ref(output), Ref(mask_), Ref(input), drop_probability_,
                                      Scale(), state);
    return {output};
}

void Dropout::SetupContext(const TensorList &, const TensorList &) {
    ctx_.SaveForBackward({mask_});
    mask_ = nullptr;
}

TensorList Dropout::Backward(const TensorList &grad_outputs) {
    if (identity_) {
        return {grad_outputs[0]};
    }
    const auto mask = ctx_.GetSavedTensors()[0];
    return {std::make_shared<MaskScale>(Scale())->Apply({grad_outputs[0], mask})[0]};
}

TensorPtr Dropout::Run(const TensorPtr &input, double drop_probability, bool training, Generator *generator) {
    CheckProbability(drop_probability);
    if (input != nullptr && (!training || drop_probability == 0)) {
        return input;
    }
    return std::make_shared<Dropout>(drop_probability, training, generator)->Apply({input})[0];
}

}  // namespace infini_train::autograd
