#include "infini_train/include/autograd/gradcheck.h"

#include <gtest/gtest.h>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train::autograd {
namespace {

using test::Contains;
using test::Thrown;

TensorPtr Double(const std::vector<double> &values, const std::vector<int64_t> &dims) {
    return Tensor::FromVector(values, dims)->RequiresGrad();
}

TEST(GradCheck, AcceptsWhatIsRight) {
    const auto function = [](const TensorList &in) {
        return TensorList{in[0]->Mul(in[1])->Sin(), in[0]->Square()->Sum(0)};
    };
    const TensorList inputs = {Double({0.1, -0.7, 1.3, 2.0, 0.4, -1.1}, {2, 3}), Double({0.5, 1.5, -0.3}, {3})};
    EXPECT_TRUE(GradCheck(function, inputs)) << GradCheck(function, inputs).message;
    EXPECT_TRUE(GradGradCheck(function, inputs)) << GradGradCheck(function, inputs).message;
}

// y = x^2 with a gradient that is off by a factor, in one element only, or for strided gradients only.
class Faulty : public Function {
public:
    enum class Fault { kScale, kOneElement, kStrided, kNull, kSecond };
    explicit Faulty(Fault fault) : Function("Faulty"), fault_(fault) {}
    TensorList Forward(const TensorList &inputs) override { return {inputs[0]->Square()}; }
    void SetupContext(const TensorList &inputs, const TensorList &) override { ctx_.SaveForBackward(inputs); }
    TensorList Backward(const TensorList &grad_outputs) override {
        const auto x = ctx_.GetSavedTensors()[0];
        auto right = grad_outputs[0]->Mul(x)->Mul(2);
        switch (fault_) {
            case Fault::kScale:
                return {right->Mul(1.01)};
            case Fault::kOneElement:
                right->Data<double>()[1] += 0.1;
                return {right};
            case Fault::kStrided:
                return {grad_outputs[0]->IsContiguous() ? right : right->Mul(2)};
            case Fault::kNull:
                return {nullptr};
            default:
                return {grad_outputs[0]->Mul(x->Detach())->Mul(2)};  // right, but its own derivative is lost
        }
    }

private:
    const Fault fault_;
};

TEST(GradCheck, FindsEveryKindOfFault) {
    using Fault = Faulty::Fault;
    const struct {
        Fault fault;
        const char *says;
    } cases[] = {{Fault::kScale, "output 0, element 0, with respect to input 0, element 0: analytical"},
                 {Fault::kOneElement, "input 0, element 1: analytical"},
                 {Fault::kStrided, "a gradient with gaps"},
                 {Fault::kNull, "analytical 0, numerical"}};
    for (const auto &c : cases) {
        const auto function = [&](const TensorList &in) { return std::make_shared<Faulty>(c.fault)->Apply(in); };
        const auto result = GradCheck(function, {Double({1, 2, 3}, {3})});
        EXPECT_FALSE(result);
        EXPECT_TRUE(Contains(result.message, c.says)) << result.message;
    }
    const auto second = [](const TensorList &in) { return std::make_shared<Faulty>(Fault::kSecond)->Apply(in); };
    EXPECT_TRUE(GradCheck(second, {Double({1, 2}, {2})}));
    const auto result = GradGradCheck(second, {Double({1, 2}, {2})});
    EXPECT_TRUE(Contains(result.message, "second derivative: ")) << result.message;
}

TEST(GradCheck, ViewsAreCheckedInPlace) {
    // A leaf whose elements have gaps between them.
    auto base = Tensor::FromVector<double>({1, 9, 2, 9, 3, 9}, std::vector<int64_t>{3, 2});
    auto x = base->Select(1, 0);
    x->set_requires_grad(true);
    const auto function = [](const TensorList &in) { return TensorList{in[0]->Exp()}; };
    EXPECT_TRUE(GradCheck(function, {x})) << GradCheck(function, {x}).message;
    EXPECT_EQ(base->ToVector<double>(), (std::vector<double>{1, 9, 2, 9, 3, 9}));
}

TEST(GradCheck, RefusesWhatItCannotCheck) {
    const auto identity = [](const TensorList &in) { return TensorList{in[0] * 1.0}; };
    EXPECT_TRUE(Contains(Thrown<DtypeError>([&] { GradCheck(identity, {test::Leaf(1)}); }), "float64"));
    EXPECT_TRUE(Contains(Thrown<ValueError>([&] { GradCheck(identity, {test::Of({1})}); }), "no input requires"));
    const auto detached = [](const TensorList &in) { return TensorList{in[0]->Detach()}; };
    EXPECT_FALSE(GradCheck(detached, {Double({1}, {1})}));
    const auto random = [](const TensorList &in) {
        return TensorList{in[0]->Mul(Tensor::Rand({1}, DataType::kFLOAT64))};
    };
    EXPECT_TRUE(Contains(GradCheck(random, {Double({1}, {1})}).message, "differs between two calls"));
}

}  // namespace
}  // namespace infini_train::autograd
