#include "infini_train/include/utils/flops.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/conv.h"
#include "infini_train/include/autograd/dropout.h"
#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/pooling.h"
#include "infini_train/include/autograd/transform.h"
#include "infini_train/include/autograd/view.h"
#include "infini_train/include/common/error.h"

#include "test/support/tensors.h"

namespace infini_train::utils {
namespace {

using test::Contains;
using test::Thrown;
using Dims = std::vector<int64_t>;

TensorSpec With(Dims dims) {
    return {std::move(dims), DataType::kFLOAT32, /*requires_grad=*/true};
}
TensorSpec Without(Dims dims, DataType dtype = DataType::kFLOAT32) {
    return {std::move(dims), dtype};
}
Cost Forward(const std::string &type, std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs) {
    return ForwardCost({type, std::move(inputs), std::move(outputs)});
}
Cost Backward(const std::string &type, std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs) {
    return BackwardCost({type, std::move(inputs), std::move(outputs)});
}
constexpr Cost Of(int64_t flops, int64_t floats) {
    return {flops, 4 * floats};
}

// FLOPs of products as torch.utils.flop_counter of PyTorch 2.15 counts them.
TEST(Flops, MatmulAsPyTorchCounts) {
    EXPECT_EQ(Forward("Matmul", {With({64, 784}), With({784, 10})}, {With({64, 10})}),
              Of(1003520, 64 * 784 + 784 * 10 + 64 * 10));
    EXPECT_EQ(Backward("Matmul", {With({64, 784}), With({784, 10})}, {With({64, 10})}),
              Of(3010560 - 1003520, 2 * (64 * 784 + 784 * 10 + 64 * 10)));
    EXPECT_EQ(Backward("Matmul", {Without({64, 784}), With({784, 10})}, {With({64, 10})}).flops, 2007040 - 1003520);
    EXPECT_EQ(Forward("Matmul", {With({3, 5, 7}), With({3, 7, 4})}, {With({3, 5, 4})}).flops, 840);
    EXPECT_EQ(Backward("Matmul", {With({3, 5, 7}), With({3, 7, 4})}, {With({3, 5, 4})}).flops, 2520 - 840);
}

TEST(Flops, MatmulOfVectorsAndBroadcastBatches) {
    // 3 products and 3 sums.
    EXPECT_EQ(Forward("Matmul", {With({3}), With({3})}, {With({})}), Of(6, 7));
    EXPECT_EQ(Forward("Matmul", {With({2, 3}), With({3})}, {With({2})}).flops, 2 * 2 * 3);
    EXPECT_EQ(Backward("Matmul", {With({2, 3}), With({3})}, {With({2})}).flops, 2 * 2 * 2 * 3);
    // b (7, 4) serves 3 matrices: its gradient is 3 products of 2 * 7 * 5 * 4, summed with 2 additions an element.
    EXPECT_EQ(Backward("Matmul", {Without({3, 5, 7}), With({7, 4})}, {With({3, 5, 4})}).flops,
              3 * 2 * 7 * 5 * 4 + 2 * 7 * 4);
}

// PyTorch leaves the bias out: an addition for each of 640 outputs, and backward 63 for each of 10 sums.
// The products as PyTorch counts them, 28672 and 73728 (with the scores made again); and 5 and 6 operations a weight.
TEST(Flops, AttentionAsPyTorchCountsPlusTheSoftmax) {
    const std::vector<TensorSpec> inputs{With({2, 4, 8, 16}), With({2, 4, 8, 16}), With({2, 4, 8, 12})};
    const int64_t weights = 2 * 4 * 8 * 8;
    EXPECT_EQ(Forward("ScaledDotProductAttention", inputs, {With({2, 4, 8, 12})}),
              Of(28672 + 5 * weights, 2 * 1024 + 2 * 768));
    EXPECT_EQ(Backward("ScaledDotProductAttention", inputs, {With({2, 4, 8, 12})}).flops, 73728 + 6 * weights);
    // Grouped heads do as much for each query head.
    const std::vector<TensorSpec> grouped{With({2, 4, 8, 16}), With({2, 1, 8, 16}), With({2, 1, 8, 12})};
    EXPECT_EQ(Forward("ScaledDotProductAttention", grouped, {With({2, 4, 8, 12})}).flops, 28672 + 5 * weights);
    const std::vector<TensorSpec> constant{Without({2, 4, 8, 16}), Without({2, 4, 8, 16}), Without({2, 4, 8, 12})};
    EXPECT_EQ(Backward("ScaledDotProductAttention", constant, {With({2, 4, 8, 12})}), Cost());
}

TEST(Flops, PartsOfLlamasBlocks) {
    EXPECT_EQ(Forward("RMSNorm", {With({4, 10}), With({10})}, {With({4, 10})}), Of(4 * 40, 90));
    EXPECT_EQ(Backward("RMSNorm", {With({4, 10}), With({10})}, {With({4, 10})}).flops, (1 + 6 + 2) * 40);
    EXPECT_EQ(Forward("RotaryEmbedding", {With({3, 4}), Without({3, 2}), Without({3, 2})}, {With({3, 4})}),
              Of(6 * 6, 36));
    EXPECT_EQ(Backward("RotaryEmbedding", {With({3, 4}), Without({3, 2}), Without({3, 2})}, {With({3, 4})}).flops,
              6 * 6);
    EXPECT_EQ(Forward("SwiGLU", {With({5}), With({5})}, {With({5})}), Of(6 * 5, 15));
    EXPECT_EQ(Backward("SwiGLU", {With({5}), With({5})}, {With({5})}), Of(12 * 5, 25));
}

TEST(Flops, LinearAsPyTorchCountsPlusTheBias) {
    const std::vector<TensorSpec> inputs = {With({64, 784}), With({10, 784}), With({10})};
    EXPECT_EQ(Forward("Linear", inputs, {With({64, 10})}), Of(1003520 + 640, 64 * 784 + 10 * 784 + 10 + 640));
    EXPECT_EQ(Backward("Linear", inputs, {With({64, 10})}).flops, 2007040 + 63 * 10);
    EXPECT_EQ(Forward("Linear", {With({64, 784}), With({10, 784}), TensorSpec()}, {With({64, 10})}).flops, 1003520);
}

TEST(Flops, Conv2dAsPyTorchCountsPlusTheBias) {
    const std::vector<TensorSpec> inputs = {With({2, 6, 14, 14}), With({16, 6, 5, 5}), With({16})};
    EXPECT_EQ(Forward("Conv2d", inputs, {With({2, 16, 10, 10})}).flops, 960000 + 3200);
    EXPECT_EQ(Backward("Conv2d", inputs, {With({2, 16, 10, 10})}).flops, 2880000 - 960000 + 3200 - 16);
    // Two groups, stride 2, padding 1. Backward as much again for the input and for the weight; PyTorch's counter takes
    // the latter for as large as without groups.
    const std::vector<TensorSpec> grouped = {With({2, 8, 9, 9}), With({12, 4, 3, 3})};
    EXPECT_EQ(Forward("Conv2d", grouped, {With({2, 12, 5, 5})}).flops, 43200);
    EXPECT_EQ(Backward("Conv2d", grouped, {With({2, 12, 5, 5})}).flops, 2 * 43200);
}

TEST(Flops, GradientsOfConvolutionsCostWhatTheyComputeIn) {
    const int64_t flops = 960000;
    EXPECT_EQ(
        Forward("Conv2dBackwardInput", {With({2, 16, 10, 10}), With({16, 6, 5, 5})}, {With({2, 6, 14, 14})}).flops,
        flops);
    EXPECT_EQ(
        Forward("Conv2dBackwardWeight", {With({2, 16, 10, 10}), With({2, 6, 14, 14})}, {With({16, 6, 5, 5})}).flops,
        flops);
    EXPECT_EQ(
        Backward("Conv2dBackwardWeight", {With({2, 16, 10, 10}), With({2, 6, 14, 14})}, {With({16, 6, 5, 5})}).flops,
        2 * flops);
}

TEST(Flops, Elementwise) {
    EXPECT_EQ(Forward("Exp", {With({3, 4})}, {With({3, 4})}), Of(12, 24));
    EXPECT_EQ(Backward("Exp", {With({3, 4})}, {With({3, 4})}), Of(12, 36));  // g y
    EXPECT_EQ(Backward("Exp", {Without({3, 4})}, {With({3, 4})}), Cost());
    EXPECT_EQ(Forward("Sigmoid", {With({5})}, {With({5})}).flops, 20);  // -x, exp, 1 + ., 1 / .
    EXPECT_EQ(Backward("Sigmoid", {With({5})}, {With({5})}).flops, 15);
    EXPECT_EQ(Backward("AddScalar", {With({5})}, {With({5})}), Cost());  // handed on
    EXPECT_EQ(Forward("Relu", {Without({6}, DataType::kBFLOAT16)}, {Without({6}, DataType::kBFLOAT16)}).bytes, 24);
}

TEST(Flops, BroadcastingOperandsAreSummed) {
    // (2, 3) + (3): 6 additions; backward the first gradient is handed on, the second sums 2 rows.
    EXPECT_EQ(Forward("Add", {With({2, 3}), With({3})}, {With({2, 3})}), Of(6, 15));
    EXPECT_EQ(Backward("Add", {With({2, 3}), With({3})}, {With({2, 3})}), Of(3, 9));
    // Each gradient is 6 products; the second sums 2 rows.
    EXPECT_EQ(Backward("Mul", {With({2, 3}), With({3})}, {With({2, 3})}), Of(6 + 6 + 3, (6 + 3 + 6) + (6 + 6 + 3)));
    // b gets -(g y / b): 3 operations.
    EXPECT_EQ(Backward("Div", {Without({4}), With({4})}, {With({4})}), Of(12, 16));
}

TEST(Flops, Reductions) {
    EXPECT_EQ(Forward("Sum", {With({2, 3})}, {With({})}), Of(5, 7));
    EXPECT_EQ(Forward("Mean", {With({2, 3})}, {With({2})}), Of(4 + 2, 8));
    EXPECT_EQ(Forward("Max", {With({2, 3})}, {With({3})}).flops, 3);
    EXPECT_EQ(Forward("Argmax", {With({2, 3})}, {Without({3}, DataType::kINT64)}), (Cost{3, 6 * 4 + 3 * 8}));
    EXPECT_EQ(Backward("Sum", {With({2, 3})}, {With({})}), Cost());  // a view
    EXPECT_EQ(Backward("Mean", {With({2, 3})}, {With({2})}).flops, 2);
}

TEST(Flops, NormalisationSoftmaxAndLoss) {
    EXPECT_EQ(Forward("Softmax", {With({4, 10})}, {With({4, 10})}), Of(200, 80));
    EXPECT_EQ(Backward("LogSoftmax", {With({4, 10})}, {With({4, 10})}), Of(160, 120));
    EXPECT_EQ(Forward("LayerNorm", {With({4, 10}), With({10}), With({10})}, {With({4, 10})}), Of(8 * 40, 100));
    EXPECT_EQ(Forward("LayerNorm", {With({4, 10}), TensorSpec(), TensorSpec()}, {With({4, 10})}).flops, 6 * 40);
    EXPECT_EQ(Backward("LayerNorm", {With({4, 10}), With({10}), With({10})}, {With({4, 10})}).flops,
              (2 + 8 + 2 + 1) * 40);
    EXPECT_EQ(Forward("CrossEntropy", {With({4, 10}), Without({4}, DataType::kINT64)}, {With({})}),
              (Cost{160, 160 + 32 + 4}));
    EXPECT_EQ(Backward("CrossEntropy", {With({4, 10}), Without({4}, DataType::kINT64)}, {With({})}).flops, 120);
}

TEST(Flops, LookupsReadOnlyTheirRows) {
    const std::vector<TensorSpec> inputs = {Without({2, 3}, DataType::kINT64), With({1000, 8})};
    EXPECT_EQ(Forward("Embedding", inputs, {With({2, 3, 8})}), (Cost{0, 6 * 8 + 2 * 48 * 4}));
    EXPECT_EQ(Backward("Embedding", inputs, {With({2, 3, 8})}), (Cost{48, 48 * 4 + 48 + 8000 * 4}));
}

// The window is the operator's, not told by shapes: 3 x 3 with stride 2 reads 9 elements for an output.
TEST(Flops, PoolingKnowsItsWindow) {
    const auto x = Tensor::Zeros({1, 2, 7, 7})->RequiresGrad();
    const auto max_pool = std::make_shared<autograd::MaxPool2d>(3, 2);
    const TensorList y = max_pool->Apply({x});
    ASSERT_EQ(y[0]->Dims(), (Dims{1, 2, 3, 3}));
    const OperatorCall call = DescribeCall(*max_pool, {x}, y);
    EXPECT_EQ(call.window, 9);
    EXPECT_EQ(ForwardCost(call).flops, 18 * 8);
    EXPECT_EQ(BackwardCost(call).flops, 18);
    const auto avg_pool = std::make_shared<autograd::AvgPool2d>(autograd::Size2d(2, 3));
    EXPECT_EQ(ForwardCost(DescribeCall(*avg_pool, {x}, avg_pool->Apply({x}))).flops, 1 * 2 * 3 * 2 * 6);
    // From shapes alone: windows side by side.
    EXPECT_EQ(Forward("AvgPool2d", {With({1, 2, 8, 8})}, {With({1, 2, 4, 4})}).flops, 32 * 4);
}

TEST(Flops, ViewsAreFreeAndCopiesAreNot) {
    const auto x = Tensor::Zeros({4, 6})->RequiresGrad();
    const auto cost = [](const std::shared_ptr<autograd::Function> &function, const TensorPtr &input) {
        return ForwardCost(DescribeCall(*function, {input}, function->Apply({input})));
    };
    EXPECT_EQ(cost(std::make_shared<autograd::Transpose>(0, 1), x), Cost());
    EXPECT_EQ(cost(std::make_shared<autograd::Reshape>(Dims{24}), x), Cost());
    EXPECT_EQ(cost(std::make_shared<autograd::Reshape>(Dims{24}), x->Transpose(0, 1)), Of(0, 48));
    // The gradient of a part: zeros around it.
    EXPECT_EQ(Backward("Slice", {With({4, 6})}, {With({2, 6})}), Of(0, 36));
    // Dropout that drops nothing.
    const auto dropout = std::make_shared<autograd::Dropout>(0.5, /*training=*/false);
    const OperatorCall call = DescribeCall(*dropout, {x}, dropout->Apply({x}));
    EXPECT_EQ(ForwardCost(call) + BackwardCost(call), Cost());
}

TEST(Flops, EmptyTensorsCostNothing) {
    EXPECT_EQ(Forward("Matmul", {With({0, 3}), With({3, 0})}, {With({0, 0})}).flops, 0);
    EXPECT_EQ(Backward("Matmul", {With({0, 3}), With({3, 0})}, {With({0, 0})}).flops, 0);
    EXPECT_EQ(Forward("Sum", {With({0})}, {With({})}).flops, 0);
    EXPECT_EQ(Forward("MaxPool2d", {With({0, 2, 4, 4})}, {With({0, 2, 2, 2})}).flops, 0);
}

TEST(Flops, OperatorsOfUsersMayBeRegistered) {
    EXPECT_FALSE(HasCost("FlopsTestCube"));
    EXPECT_EQ(Forward("FlopsTestCube", {With({5})}, {With({5})}), Cost());
    RegisterCost(
        "FlopsTestCube",
        [](const OperatorCall &call) {
            return Cost{2 * call.outputs[0].NumElements(), 0};
        },
        [](const OperatorCall &call) {
            return Cost{3 * call.outputs[0].NumElements(), 0};
        });
    EXPECT_TRUE(HasCost("FlopsTestCube"));
    EXPECT_EQ(Forward("FlopsTestCube", {With({5})}, {With({5})}).flops, 10);
    EXPECT_EQ(Backward("FlopsTestCube", {With({5})}, {With({5})}).flops, 15);
    EXPECT_TRUE(Contains(Thrown<ValueError>([] { RegisterCost("FlopsTestCube", nullptr, nullptr); }),
                         "expected a type and two formulas"));
}

// Every type that the library's sources name has a line in the table.
TEST(Flops, AllOperatorsOfTheLibraryAreKnown) {
    std::set<std::string> types;
    const std::regex named("kType\\[\\] = \"([A-Za-z0-9_]+)\"|: (?:Unary)?Function\\(\"([A-Za-z0-9_]+)\"");
    for (const char *folder : {"infini_train/include/autograd", "infini_train/src/autograd"}) {
        for (const auto &file : std::filesystem::directory_iterator(folder)) {
            std::ifstream stream(file.path());
            std::stringstream text;
            text << stream.rdbuf();
            const std::string source = text.str();
            for (std::sregex_iterator at(source.begin(), source.end(), named), end; at != end; ++at) {
                const std::string type = (*at)[1].matched ? (*at)[1] : (*at)[2];
                const size_t line = source.rfind('\n', static_cast<size_t>(at->position())) + 1;
                if (source.compare(line, 3, "///") != 0) {  // an example in a comment
                    types.insert(type);
                }
            }
        }
    }
    EXPECT_GT(types.size(), 90U);
    types.erase("Checkpoint");  // the sum of what it calls
    for (const std::string &type : types) {
        EXPECT_TRUE(HasCost(type)) << type << ": its costs belong into infini_train/src/utils/flops_table.cc";
    }
}

}  // namespace
}  // namespace infini_train::utils
