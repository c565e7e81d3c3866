#include "example/common/line_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <cairo.h>
#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"

#include "example/common/axis_ticks.h"
#include "test/support/temp_dir.h"

namespace infini_train::example {
namespace {

using ::infini_train::test::MessageOf;
using ::infini_train::test::TempDir;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// A PNG read back by cairo.
class Picture {
public:
    explicit Picture(const std::string &path)
        : surface_(cairo_image_surface_create_from_png(path.c_str()), cairo_surface_destroy) {
        EXPECT_EQ(cairo_surface_status(surface_.get()), CAIRO_STATUS_SUCCESS);
    }

    int width() const { return cairo_image_surface_get_width(surface_.get()); }
    int height() const { return cairo_image_surface_get_height(surface_.get()); }

    // 0xRRGGBB
    uint32_t At(double x, double y) const {
        const unsigned char *data = cairo_image_surface_get_data(surface_.get());
        const int stride = cairo_image_surface_get_stride(surface_.get());
        return reinterpret_cast<const uint32_t *>(data + stride * static_cast<int>(y))[static_cast<int>(x)] & 0xffffff;
    }

private:
    std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t *)> surface_;
};

uint32_t Packed(int index) {
    uint32_t packed = 0;
    for (const double part : PlotColor(index)) {
        packed = packed << 8 | static_cast<uint32_t>(std::lround(part * 255));
    }
    return packed;
}

class LinePlotTest : public ::testing::Test {
protected:
    TempDir dir_;
    std::string path_ = dir_.path() + "/plot.png";
};

TEST_F(LinePlotTest, LinesLieWhereTheFrameSays) {
    const PlotPanel loss = {"loss", "epoch", "loss", {{"train", {0, 1, 2}, {3, 1, 1}}, {"test", {0, 2}, {2, 2}}}};
    const PlotPanel accuracy = {"accuracy", "epoch", "%", {{"", {0, 4}, {50, 90}, 3}}};
    const std::vector<PlotFrame> frames = WriteLinePlot(path_, {loss, accuracy}, {"A title", 900, 400});
    const Picture picture(path_);
    EXPECT_EQ(picture.width(), 900);
    EXPECT_EQ(picture.height(), 400);
    ASSERT_EQ(frames.size(), 2U);
    const auto at = [&](size_t panel, double x, double y) {
        return picture.At(frames[panel].PixelX(x), frames[panel].PixelY(y));
    };
    EXPECT_EQ(at(0, 0.9, 1.2), Packed(0));
    EXPECT_EQ(at(0, 1.5, 1), Packed(0));
    EXPECT_EQ(at(0, 1.2, 2), Packed(1));
    EXPECT_EQ(at(1, 2, 70), Packed(3));
    EXPECT_EQ(picture.At(0, 0), 0xffffffU);
    EXPECT_GT(frames[1].left, frames[0].left + frames[0].width);
    EXPECT_LT(frames[1].left + frames[1].width, 900);
}

TEST_F(LinePlotTest, PointsThatAreNotFiniteLeaveGaps) {
    const PlotPanel panel = {"", "", "", {{"", {0, 1, 2, 3, 4, 5, 6}, {1, 1, kNan, 1, kInf, 1, 1}}}};
    const PlotFrame frame = WriteLinePlot(path_, {panel})[0];
    const Picture picture(path_);
    EXPECT_EQ(picture.At(frame.PixelX(0.5), frame.PixelY(1)), Packed(0));
    EXPECT_NE(picture.At(frame.PixelX(1.5), frame.PixelY(1)), Packed(0));
    EXPECT_NE(picture.At(frame.PixelX(2.5), frame.PixelY(1)), Packed(0));
    // A point alone between two gaps is a dot.
    EXPECT_EQ(picture.At(frame.PixelX(3), frame.PixelY(1)), Packed(0));
    EXPECT_EQ(picture.At(frame.PixelX(5.5), frame.PixelY(1)), Packed(0));
}

TEST_F(LinePlotTest, AxesFollowTheLimits) {
    PlotPanel panel = {"", "", "", {{"", {1, 2}, {20, 90}}}};
    panel.y_min = 0;
    panel.y_max = 100;
    const PlotFrame frame = WriteLinePlot(path_, {panel})[0];
    EXPECT_EQ(frame.y_min, 0);
    EXPECT_EQ(frame.y_max, 100);
    EXPECT_LT(frame.x_min, 1);
    EXPECT_GT(frame.x_max, 2);
}

TEST_F(LinePlotTest, OddDataIsStillAPicture) {
    const std::vector<double> huge = {-1.7e308, 1.7e308};
    for (const PlotPanel &panel :
         {PlotPanel{"empty", "x", "y", {}}, PlotPanel{"one", "", "", {{"a", {3}, {5}}}},
          PlotPanel{"zero", "", "", {{"a", {0}, {0}}}}, PlotPanel{"all gaps", "", "", {{"a", {0, 1}, {kNan, kNan}}}},
          PlotPanel{"huge", "", "", {{"a", huge, huge}}},
          PlotPanel{"large", "", "", {{"a", {-1e299, 1e299}, {1e-300, 1e299}}}},
          PlotPanel{"equal", "", "", {{"a", {1, 1 + 1e-16}, {1e-9, 1e-9}}}},
          PlotPanel{"no points", "", "", {{"a", {}, {}}}}}) {
        const PlotFrame frame = WriteLinePlot(path_, {panel})[0];
        EXPECT_LT(frame.x_min, frame.x_max) << panel.title;
        EXPECT_LT(frame.y_min, frame.y_max) << panel.title;
        EXPECT_EQ(Picture(path_).width(), 1200) << panel.title;
    }
}

TEST_F(LinePlotTest, Errors) {
    const PlotPanel panel = {"", "", "", {{"a", {1, 2}, {1}}}};
    EXPECT_EQ(MessageOf<ValueError>([&] { WriteLinePlot(path_, {}); }),
              "WriteLinePlot: expected at least one panel, got none");
    EXPECT_EQ(MessageOf<ValueError>([&] { WriteLinePlot(path_, {panel}); }),
              "WriteLinePlot: expected as many x as y in series 'a', got 2 and 1");
    EXPECT_EQ(MessageOf<ValueError>([&] {
                  WriteLinePlot(path_, {PlotPanel(), PlotPanel()}, {"", 150, 400});
              }),
              "WriteLinePlot: expected a size from 200 x 100 to 10000 x 10000, got 150 x 400");
    EXPECT_EQ(MessageOf<IoError>([] { WriteLinePlot("/none/plot.png", {PlotPanel()}); }),
              "WriteLinePlot: can't create '/none/plot.png': No such file or directory");
    if (std::ifstream("/dev/full").good()) {
        EXPECT_EQ(MessageOf<IoError>([] { WriteLinePlot("/dev/full", {PlotPanel()}); }),
                  "WriteLinePlot: can't write to '/dev/full': No space left on device");
    }
    // Text that is no UTF-8.
    EXPECT_NE(MessageOf<ValueError>([&] {
                  WriteLinePlot(path_, {PlotPanel{"\xff", "", "", {}}});
              }).find("UTF-8"),
              std::string::npos);
}

TEST(NiceTicksTest, StepsAreRound) {
    EXPECT_EQ(NiceTicks(0, 1, 6).labels, (std::vector<std::string>{"0.0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
    EXPECT_EQ(NiceTicks(-1, 1, 5).labels, (std::vector<std::string>{"−1.0", "−0.5", "0.0", "0.5", "1.0"}));
    EXPECT_EQ(NiceTicks(0.3, 9.7, 6).labels, (std::vector<std::string>{"2", "4", "6", "8"}));
    EXPECT_EQ(NiceTicks(0, 60000, 4).labels, (std::vector<std::string>{"0", "20000", "40000", "60000"}));
    EXPECT_EQ(NiceTicks(1, 3, 9, true).labels, (std::vector<std::string>{"1", "2", "3"}));
}

TEST(NiceTicksTest, ExtremesGetShortLabels) {
    EXPECT_EQ(NiceTicks(0, 4e6, 3).labels, (std::vector<std::string>{"0", "2e+06", "4e+06"}));
    EXPECT_EQ(NiceTicks(0, 2e-5, 3).labels, (std::vector<std::string>{"0", "1e-05", "2e-05"}));
}

TEST(NiceTicksTest, NeverTooManyAndAllInRange) {
    for (const double low : {-7.3, 0.0, 0.001, 123456.0}) {
        for (const double extent : {1e-3, 0.77, 3.0, 9.99, 1e7}) {
            for (const int most : {2, 3, 7}) {
                const AxisTicks ticks = NiceTicks(low, low + extent, most);
                EXPECT_LE(static_cast<int>(ticks.values.size()), most);
                EXPECT_EQ(ticks.values.size(), ticks.labels.size());
                for (const double value : ticks.values) {
                    EXPECT_GE(value, low - 1e-6 * extent);
                    EXPECT_LE(value, low + extent * (1 + 1e-6));
                }
            }
        }
    }
}

TEST(NiceTicksTest, RefusesNoRange) {
    EXPECT_EQ(MessageOf<ValueError>([] { NiceTicks(1, 1, 5); }), "NiceTicks: expected a finite range, got 1 to 1");
    EXPECT_EQ(MessageOf<ValueError>([] { NiceTicks(0, kInf, 5); }), "NiceTicks: expected a finite range, got 0 to inf");
    EXPECT_EQ(MessageOf<ValueError>([] { NiceTicks(0, 1, 1); }), "NiceTicks: expected at least 2 ticks, got 1");
}

}  // namespace
}  // namespace infini_train::example
