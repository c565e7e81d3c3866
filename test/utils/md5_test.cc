// MD5 of bytes and of tensors, against RFC 1321 and Python's hashlib.

#include "infini_train/include/utils/md5.h"

#include <string>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Of;
using test::Thrown;
using utils::Md5;

std::string OfText(const std::string &text) {
    return Md5(text.data(), text.size());
}

// RFC 1321, A.5.
TEST(Md5, TestSuiteOfTheRfc) {
    EXPECT_EQ(OfText(""), "d41d8cd98f00b204e9800998ecf8427e");
    EXPECT_EQ(OfText("a"), "0cc175b9c0f1b6a831c399e269772661");
    EXPECT_EQ(OfText("abc"), "900150983cd24fb0d6963f7d28e17f72");
    EXPECT_EQ(OfText("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
    EXPECT_EQ(OfText("abcdefghijklmnopqrstuvwxyz"), "c3fcd3d76192e4007dfb496cca67e13b");
    EXPECT_EQ(OfText("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"),
              "d174ab98d277d9f5a5611c2c9f419d9f");
    EXPECT_EQ(OfText("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
              "57edf4a22be3c955ac49da2e2107b67a");
}

// hashlib.md5(x.tobytes()) of x = np.arange(6, dtype=float32).reshape(2, 3) / 4, of x.T, and of [True, False, True].
TEST(Md5, OfTensorsAsNumPyGivesTheirBytes) {
    const auto x = Of({0, 0.25F, 0.5F, 0.75F, 1, 1.25F}, {2, 3});
    EXPECT_EQ(Md5(*x), "cf5085aa52b0629a41143036d2f51e6c");
    EXPECT_EQ(Md5(*x->View({3, 2})), Md5(*x));
    EXPECT_EQ(Md5(*x->Transpose(0, 1)), "5e7a2f057615e74b21987708c6810ad7");
    const auto truth = Tensor::FromVector<bool>({true, false, true});
    EXPECT_EQ(Md5(*truth), "01e9802fd906341a2b769125c562d95c");
    EXPECT_EQ(Md5(*Tensor::FromVector<bool>({true, true, false, false, true, true}, {{3, 2}})->Select(1, 0)),
              Md5(*truth));
    EXPECT_EQ(Md5(*Tensor::Zeros({0, 4})), OfText(""));
}

// hashlib.md5(np.array([1.0, 2.0, -2.0]).tobytes())
TEST(Md5, ToleranceRoundsToMultiples) {
    EXPECT_EQ(Md5(*Of({0.01F, 0.0201F, -0.019F}), 0.01), "4825ebede1a1f1b284b06e08d2b20a66");
    EXPECT_EQ(Md5(*Of({-0.001F}), 0.01), Md5(*Of({0.001F}), 0.01));
    const auto integers = Tensor::FromVector<int64_t>({1, 2});
    EXPECT_EQ(Md5(*integers, 0.5), Md5(*integers));
    EXPECT_EQ(Thrown<ValueError>([&] { Md5(*integers, -1); }), "Md5: expected a tolerance of at least 0, got -1");
}

}  // namespace
}  // namespace infini_train
