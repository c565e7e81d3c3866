#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/convolution.h"
#include "infini_train/include/nn/modules/dropout.h"
#include "infini_train/include/nn/modules/flatten.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/nn/modules/loss.h"
#include "infini_train/include/nn/modules/normalization.h"
#include "infini_train/include/nn/modules/pooling.h"
#include "infini_train/include/nn/modules/sparse.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

// Values and gradients of each layer against those of PyTorch 2 in float64, for inputs, parameters and gradients of the
// pattern below.
namespace infini_train {
namespace {

using test::Thrown;
using Dims = std::vector<int64_t>;
using Doubles = std::vector<double>;

TensorPtr Pattern(const Dims &dims, int k, DataType dtype) {
    const auto tensor = Tensor::Empty(dims, DataType::kFLOAT64);
    for (int64_t i = 0; i < tensor->NumElements(); ++i) {
        tensor->Data<double>()[i] = static_cast<double>((i * 7 + k * 3) % 11 - 5) / 4;
    }
    return tensor->To(dtype);
}

void ExpectNear(const TensorPtr &actual, const Doubles &expected, double tolerance, const std::string &what) {
    ASSERT_NE(actual, nullptr) << what;
    const auto values = actual->ToVector<double>();
    ASSERT_EQ(values.size(), expected.size()) << what;
    for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(values[i], expected[i], tolerance) << what << " at " << i;
    }
}

struct Expected {
    Doubles y;
    Doubles grad_input;
    std::vector<Doubles> grads;  // of the parameters, in order
};

// With the gradient of the output as the pattern says, or of ones where `ones`.
void Check(const std::shared_ptr<nn::Module> &layer, const Dims &dims, const Expected &expected,
           const TensorPtr &other = nullptr, bool ones = false) {
    for (const DataType dtype : {DataType::kFLOAT64, DataType::kFLOAT32}) {
        SCOPED_TRACE(layer->ToString() + " " + ToString(dtype));
        const double tolerance = dtype == DataType::kFLOAT64 ? 2e-9 : 2e-6;
        layer->To(dtype);
        layer->ZeroGrad();
        const auto parameters = layer->Parameters();
        for (size_t i = 0; i < parameters.size(); ++i) {
            parameters[i]->Detach()->Copy_(Pattern(parameters[i]->Dims(), static_cast<int>(i) + 1, dtype));
        }
        const auto x = Pattern(dims, 0, dtype)->RequiresGrad();
        TensorList inputs = {x};
        if (other != nullptr) {
            inputs.push_back(IsFloatingPoint(other->Dtype()) ? other->To(dtype) : other);
        }
        const auto y = (*layer)(inputs)[0];
        EXPECT_EQ(y->Dtype(), dtype);
        ExpectNear(y, expected.y, tolerance, "y");
        y->Backward(ones ? Tensor::Ones(y->Dims(), dtype) : Pattern(y->Dims(), 5, dtype));
        ExpectNear(x->grad(), expected.grad_input, tolerance, "grad_input");
        ASSERT_EQ(parameters.size(), expected.grads.size());
        for (size_t i = 0; i < parameters.size(); ++i) {
            ExpectNear(parameters[i]->grad(), expected.grads[i], tolerance, "gradient " + std::to_string(i));
        }
    }
}

TEST(LinearTest, MatchesPyTorch) {
    Check(std::make_shared<nn::Linear>(3, 2), {2, 3},
          {.y = {1.375, 0.6875, -0.25, -1.4375},
           .grad_input = {1.0625, -1.5625, -0.0625, 0.125, 0.125, 0.125},
           .grads = {{0.9375, 0, -0.25, 0.9375, -0.75, 1}, {0.25, -1.75}}});
    Check(std::make_shared<nn::Linear>(3, 2, /*bias=*/false), {2, 3},
          {.y = {1.125, 1.4375, -0.5, -0.6875},
           .grad_input = {1.0625, -1.5625, -0.0625, 0.125, 0.125, 0.125},
           .grads = {{0.9375, 0, -0.25, 0.9375, -0.75, 1}}});
}

TEST(Conv2dTest, MatchesPyTorch) {
    Check(
        std::make_shared<nn::Conv2d>(2, 2, nn::Size2d(2, 3), nn::Size2d(1, 2), nn::Size2d(0, 1), 1, /*groups=*/2),
        {1, 2, 3, 4},
        {.y = {-0.9375, 1.25, -0.625, 1.0625, -1.125, -0.125, -1.0625, -2.0625},
         .grad_input = {-0.3125, 0.5625,  -1.5625, -0.3125, 0.375,  1.3125, -1.875, -0.125, 0.5,    0.375,  -0.5, 0,
                        0.9375,  -0.5625, 0.1875,  -0.0625, 0.0625, -1.75,  0.875,  -0.375, -0.375, -0.875, 0.5,  -0.5},
         .grads = {{-0.25, 0.5625, -2.0625, 0.5625, -1.6875, 1.1875, 0.875, 1.5, -2.3125, 0, -2.75, 1.6875},
                   {-1.5, 1.75}}});
}

TEST(LayerNormTest, MatchesPyTorch) {
    Check(std::make_shared<nn::LayerNorm>(3), {2, 3},
          {.y = {0.831232539, 0.848389481, 0.970938373, -0.362367843, -0.75, 0.693816079},
           .grad_input = {-0.3817057, -0.286321264, 0.668026964, -0.574093131, 1.148189706, -0.574096575},
           .grads = {{-0.321751574, -1.598389481, -0.364307175}, {-0.75, 0, 0.75}}});
    Check(std::make_shared<nn::LayerNorm>(Dims{2, 2}, 1e-2, /*elementwise_affine=*/false), {2, 2, 2},
          {.y = {-1.305879244, 0.522351698, -0.522351698, 1.305879244, 0.197488126, -1.382416885, 1.382416885,
                 -0.197488126},
           .grad_input = {-0.292531203, -0.74486782, 0.74486782, 0.292531203, 1.387654479, -1.024103794, -1.148265596,
                          0.784714911},
           .grads = {}});
}

TEST(ActivationsTest, MatchPyTorch) {
    Check(std::make_shared<nn::Relu>(), {6},
          {.y = {0, 0.5, 0, 1.25, 0.25, 0}, .grad_input = {0, -1.25, 0, -0.5, 1.25, 0}, .grads = {}});
    Check(std::make_shared<nn::Sigmoid>(), {6},
          {.y = {0.222700139, 0.622459331, 0.377540669, 0.777299861, 0.562176501, 0.320821301},
           .grad_input = {-0.043276197, -0.29375464, 0.117501856, -0.086552393, 0.307667603, 0.054473748},
           .grads = {}});
    Check(std::make_shared<nn::Gelu>(), {6},
          {.y = {-0.132062217, 0.345731231, -0.154268769, 1.117937783, 0.149676581, -0.169970514},
           .grad_input = {0.030665396, -1.084368906, 0.066252438, -0.561330792, 0.869216694, 0.00019357},
           .grads = {}});
    Check(std::make_shared<nn::Gelu>(/*tanh_approximation=*/true), {6},
          {.y = {-0.132285797, 0.34571401, -0.15428599, 1.117714203, 0.149675351, -0.170039445},
           .grad_input = {0.030623158, -1.084212379, 0.066315048, -0.561246316, 0.869192619, 0.000265436},
           .grads = {}});
    Check(std::make_shared<nn::NewGELU>(), {6},
          {.y = {-0.132285797, 0.34571401, -0.15428599, 1.117714203, 0.149675351, -0.170039445},
           .grad_input = {0.030623158, -1.084212379, 0.066315048, -0.561246316, 0.869192619, 0.000265436},
           .grads = {}});
    Check(std::make_shared<nn::Silu>(), {6},
          {.y = {-0.278375174, 0.311229666, -0.188770334, 0.971624826, 0.140544125, -0.240615976},
           .grad_input = {-0.001579789, -0.924951484, 0.130019406, -0.496840422, 0.779637527, 0.039350014},
           .grads = {}});
    Check(std::make_shared<nn::Tanh>(), {6},
          {.y = {-0.84828364, 0.462117157, -0.462117157, 0.84828364, 0.244918662, -0.635148952},
           .grad_input = {-0.070103717, -0.983059666, 0.393223866, -0.140207433, 1.175018561, 0.149146452},
           .grads = {}});
    Check(std::make_shared<nn::Softmax>(0), {2, 3},
          {.y = {0.07585818, 0.562176501, 0.562176501, 0.92414182, 0.437823499, 0.437823499},
           .grad_input = {0.017525929, -0.615335207, 0.061533521, -0.017525929, 0.615335207, -0.061533521},
           .grads = {}});
    Check(std::make_shared<nn::LogSoftmax>(1), {2, 3},
          {.y = {-2.182855467, -0.432855467, -1.432855467, -0.407605964, -1.407605964, -2.407605964},
           .grad_input = {-0.137280795, -0.601345763, 0.738626558, -1.165240956, 1.005271529, 0.159969427},
           .grads = {}});
}

TEST(PoolingTest, MatchesPyTorch) {
    Check(std::make_shared<nn::MaxPool2d>(2), {1, 1, 4, 4},
          {.y = {0.5, 1.25, 0.75, 1.25},
           .grad_input = {0, -0.25, 0, -1.25, 0, 0, 0, 0, 0, 0.5, 0, 0, 0, 0, -0.5, 0},
           .grads = {}});
    Check(std::make_shared<nn::MaxPool2d>(3, 1, 1), {1, 1, 4, 4},
          {.y = {0.5, 1, 1.25, 1.25, 0.75, 1, 1.25, 1.25, 0.75, 1.25, 1.25, 1.25, 0.75, 1.25, 1.25, 1.25},
           .grad_input = {0, -0.25, 0, 0.25, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0.75, 0},
           .grads = {}});
    Check(std::make_shared<nn::AvgPool2d>(2), {1, 1, 4, 4},
          {.y = {-0.3125, 0.4375, -0.0625, 0},
           .grad_input = {-0.0625, -0.0625, -0.3125, -0.3125, -0.0625, -0.0625, -0.3125, -0.3125, 0.125, 0.125, -0.125,
                          -0.125, 0.125, 0.125, -0.125, -0.125},
           .grads = {}});
    Check(std::make_shared<nn::AvgPool2d>(3, 2, 1, /*ceil_mode=*/false, /*count_include_pad=*/false), {1, 1, 4, 4},
          {.y = {-0.3125, 0.25, -0.125, 0.055555556},
           .grad_input = {-0.0625, -0.270833333, -0.208333333, -0.208333333, 0.020833333, -0.243055556, -0.263888889,
                          -0.263888889, 0.083333333, 0.027777778, -0.055555556, -0.055555556, 0.083333333, 0.027777778,
                          -0.055555556, -0.055555556},
           .grads = {}});
}

TEST(CrossEntropyLossTest, MatchesPyTorch) {
    const auto labels = Tensor::FromVector<int64_t>({1, 2, 0});
    Check(std::make_shared<nn::CrossEntropyLoss>(), {3, 4},
          {.y = {1.421409192},
           .grad_input = {0.015832232, -0.242225131, 0.033516834, 0.192876065, 0.078179721, 0.028760712, -0.167826862,
                          0.060886428, -0.298792463, 0.198768984, 0.073123023, 0.026900457},
           .grads = {}},
          labels, /*ones=*/true);
    Check(std::make_shared<nn::CrossEntropyLoss>(Reduction::kMean, -100, /*label_smoothing=*/0.1), {3, 4},
          {.y = {1.448492525},
           .grad_input = {0.007498898, -0.217225131, 0.025183501, 0.184542732, 0.069846388, 0.020427379, -0.142826862,
                          0.052553095, -0.273792463, 0.19043565, 0.064789689, 0.018567123},
           .grads = {}},
          labels, /*ones=*/true);
    Check(std::make_shared<nn::CrossEntropyLoss>(Reduction::kSum, /*ignore_index=*/2), {3, 4},
          {.y = {3.564094882},
           .grad_input = {0.047496695, -0.726675394, 0.100550503, 0.578628196, 0, 0, 0, 0, -0.89637739, 0.596306951,
                          0.219369068, 0.08070137},
           .grads = {}},
          labels, /*ones=*/true);
    Check(std::make_shared<nn::CrossEntropyLoss>(Reduction::kNone), {3, 4},
          {.y = {1.297095157, 0.700132694, 2.266999725},
           .grad_input = {0.047496695, -0.726675394, 0.100550503, 0.578628196, 0.234539164, 0.086282137, -0.503480586,
                          0.182659285, -0.89637739, 0.596306951, 0.219369068, 0.08070137},
           .grads = {}},
          labels, /*ones=*/true);
}

TEST(MSELossTest, MatchesPyTorch) {
    const auto target = Pattern({2, 2}, 2, DataType::kFLOAT64);
    Check(std::make_shared<nn::MSELoss>(), {2, 2},
          {.y = {1.90625}, .grad_input = {-0.75, 0.625, -0.75, 0.625}, .grads = {}}, target, /*ones=*/true);
    Check(std::make_shared<nn::MSELoss>(Reduction::kSum), {2, 2},
          {.y = {7.625}, .grad_input = {-3, 2.5, -3, 2.5}, .grads = {}}, target, /*ones=*/true);
    Check(std::make_shared<nn::MSELoss>(Reduction::kNone), {2, 2},
          {.y = {2.25, 1.5625, 2.25, 1.5625}, .grad_input = {-3, 2.5, -3, 2.5}, .grads = {}}, target, /*ones=*/true);
}

TEST(EmbeddingTest, MatchesPyTorch) {
    for (const DataType dtype : {DataType::kFLOAT64, DataType::kFLOAT32}) {
        auto layer = std::make_shared<nn::Embedding>(4, 2, Device(), dtype);
        const auto weight = layer->parameter("weight");
        weight->Detach()->Copy_(Pattern({4, 2}, 1, dtype));
        const auto y = (*layer)({Tensor::FromVector<int32_t>({1, 3, 3, 0}, Dims{2, 2})})[0];
        EXPECT_EQ(y->Dims(), (Dims{2, 2, 2}));
        ExpectNear(y, {0.25, -0.75, -1, 0.75, -1, 0.75, -0.5, 1.25}, 0, "y");
        y->Backward(Pattern(y->Dims(), 5, dtype));
        ExpectNear(weight->grad(), {-0.75, 1, -0.25, -1.25, 0, 0, 1.75, -0.25}, 0, "gradient");
    }
}

TEST(DropoutTest, DropsInTrainingAndScalesWhatStays) {
    ManualSeed(3);
    auto layer = std::make_shared<nn::Dropout>(0.25);
    const auto x = Tensor::Ones({100, 100})->RequiresGrad();
    const auto y = (*layer)({x})[0];
    int dropped = 0;
    for (const float value : y->ToVector<float>()) {
        dropped += value == 0;
        EXPECT_TRUE(value == 0 || std::abs(value - 4.0F / 3) < 1e-6F) << value;
    }
    EXPECT_NEAR(dropped, 2500, 5 * std::sqrt(10000 * 0.25 * 0.75));
    y->Sum()->Backward();
    EXPECT_EQ(x->grad()->ToVector<float>(), y->ToVector<float>());

    layer->Eval();
    EXPECT_EQ((*layer)({x})[0]->ToVector<float>(), x->ToVector<float>());
}

TEST(FlattenTest, MergesDimensions) {
    const auto x = Tensor::Empty({2, 3, 4, 5});
    EXPECT_EQ((*std::make_shared<nn::Flatten>())({x})[0]->Dims(), (Dims{2, 60}));
    EXPECT_EQ((*std::make_shared<nn::Flatten>(0, 2))({x})[0]->Dims(), (Dims{24, 5}));
    EXPECT_EQ((*std::make_shared<nn::Flatten>(-3, -2))({x})[0]->Dims(), (Dims{2, 12, 5}));
}

TEST(LayersTest, PrintWhatTheyAre) {
    const auto text = [](const nn::Module &module) { return module.ToString(); };
    EXPECT_EQ(text(nn::Linear(784, 10)), "Linear(in_features=784, out_features=10, bias=true)");
    EXPECT_EQ(text(nn::Conv2d(1, 6, 5, 1, 2)), "Conv2d(1, 6, kernel_size=(5, 5), stride=(1, 1), padding=(2, 2))");
    EXPECT_EQ(text(nn::Conv2d(4, 6, {3, 5}, 1, 0, 2, 2, false)),
              "Conv2d(4, 6, kernel_size=(3, 5), stride=(1, 1), dilation=(2, 2), groups=2, bias=false)");
    EXPECT_EQ(text(nn::Embedding(10, 3)), "Embedding(10, 3)");
    EXPECT_EQ(text(nn::LayerNorm(10)), "LayerNorm((10,), eps=1e-05, elementwise_affine=true, bias=true)");
    EXPECT_EQ(text(nn::Dropout(0.1)), "Dropout(p=0.1)");
    EXPECT_EQ(text(nn::MaxPool2d(2)), "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=false)");
    EXPECT_EQ(text(nn::AvgPool2d(nn::Size2d(2, 3))), "AvgPool2d(kernel_size=(2, 3), stride=(2, 3), padding=0)");
    EXPECT_EQ(text(nn::Flatten()), "Flatten(start_dim=1, end_dim=-1)");
    EXPECT_EQ(text(nn::Gelu()), "Gelu(approximate='none')");
    EXPECT_EQ(text(nn::Softmax(1)), "Softmax(dim=1)");
    EXPECT_EQ(text(nn::Relu()), "Relu()");
}

TEST(LayersTest, RefuseSenselessArguments) {
    EXPECT_EQ(Thrown<ValueError>([] { nn::Linear(3, 0); }),
              "Linear: expected at least 1 feature in and out, got 3 and 0");
    EXPECT_EQ(Thrown<ValueError>([] { nn::Conv2d(3, 4, 1, 1, 0, 1, 2); }),
              "Conv2d: expected channels that divide into the groups, got 3 in, 4 out and 2 groups");
    EXPECT_EQ(
        Thrown<ValueError>([] { nn::Conv2d(3, 4, 1, 1, -1); }),
        "Conv2d: expected kernel, stride and dilation of at least 1 and padding of at least 0, got kernel (1, 1), "
        "stride (1, 1), dilation (1, 1) and padding (-1, -1)");
    EXPECT_EQ(Thrown<ValueError>([] { nn::Embedding(0, 3); }),
              "Embedding: expected at least 1 vector of at least 1 element, got 0 of 3");
    EXPECT_EQ(Thrown<ValueError>([] { nn::LayerNorm(Dims{}); }),
              "LayerNorm: expected a shape of at least one dimension, each of at least 1, got ()");
    EXPECT_EQ(Thrown<ValueError>([] { nn::Dropout(1.5); }), "Dropout: expected a probability in [0, 1], got 1.5");
    EXPECT_EQ(Thrown<ValueError>([] { nn::CrossEntropyLoss(Reduction::kMean, -100, 2); }),
              "CrossEntropyLoss: expected a label_smoothing in [0, 1], got 2");
}

TEST(LayersTest, RefuseSenselessInputs) {
    auto linear = std::make_shared<nn::Linear>(3, 2);
    const auto x = Tensor::Zeros({2, 4});
    EXPECT_EQ(Thrown<ValueError>([&] { (*linear)({}); }), "Linear: expected 1 input, got 0 [in module Linear]");
    EXPECT_EQ(Thrown<ValueError>([&] { (*linear)({nullptr}); }), "Linear: input 0 is null [in module Linear]");
    EXPECT_EQ(Thrown<ValueError>([&] { nn::Relu().Forward({x, x}); }), "Relu: expected 1 input, got 2");
    EXPECT_EQ(Thrown<ValueError>([&] { nn::MSELoss().Forward({x}); }), "MSELoss: expected 2 inputs, got 1");
    EXPECT_EQ(Thrown<ShapeError>([&] { (*linear)({x}); }),
              "Linear: (2, 4) and (2, 3) don't match: 4 against 3 [in module Linear]");

    auto net = std::make_shared<nn::Sequential>(std::make_shared<nn::Sequential>(std::make_shared<nn::Relu>(), linear));
    EXPECT_EQ(Thrown<ShapeError>([&] { (*net)({x}); }),
              "Linear: (2, 4) and (2, 3) don't match: 4 against 3 [in module 0.1 (Linear)]");
}

// The layers look their parameters up, so that one that takes another's place is used.
TEST(LayersTest, SeeAReplacedParameter) {
    auto linear = std::make_shared<nn::Linear>(2, 1, /*bias=*/false);
    *linear->mutable_parameter("weight") = test::Of({1, 2, 3, 4, 5, 6}, {3, 2})->RequiresGrad();
    *linear->mutable_parameter("bias") = test::Leaf({10, 20, 30});
    EXPECT_EQ((*linear)({test::Of({1, -1}, {1, 2})})[0]->ToVector<float>(), (test::Floats{9, 19, 29}));
    EXPECT_EQ(linear->ToString(), "Linear(in_features=2, out_features=3, bias=true)");
    EXPECT_EQ(linear->Parameters().size(), 2U);
}

}  // namespace
}  // namespace infini_train
