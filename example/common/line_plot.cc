#include "example/common/line_plot.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numbers>

#include <cairo.h>

#include "infini_train/include/common/error.h"

#include "example/common/axis_ticks.h"

namespace infini_train::example {

namespace {

using Color = std::array<double, 3>;

constexpr Color kInk = {0.15, 0.16, 0.18};
constexpr Color kSoftInk = {0.36, 0.38, 0.41};
constexpr Color kGrid = {0.90, 0.91, 0.92};
constexpr Color kWhite = {1, 1, 1};
constexpr double kTextSize = 13;
constexpr double kTickTextSize = 12;
constexpr double kPanelTitleSize = 14.5;
constexpr double kTitleSize = 17;
constexpr double kPadding = 18;
constexpr double kLineWidth = 2.2;
constexpr int kSmallestPanel = 100;
constexpr int kLargestSide = 10000;
// Beyond this the arithmetic on ranges could overflow.
constexpr double kLargestValue = 1e300;

bool IsDrawable(double value) {
    return std::abs(value) <= kLargestValue;
}

enum class Anchor {
    kStart,
    kMiddle,
    kEnd,
};

/// A cairo image with the few things that a plot needs.
class Canvas {
public:
    Canvas(int width, int height)
        : surface_(cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height), cairo_surface_destroy),
          cairo_(cairo_create(surface_.get()), cairo_destroy) {
        Use(kWhite);
        cairo_paint(get());
        cairo_set_line_join(get(), CAIRO_LINE_JOIN_ROUND);
        cairo_set_line_cap(get(), CAIRO_LINE_CAP_ROUND);
    }

    cairo_t *get() { return cairo_.get(); }

    void Use(const Color &color, double opacity = 1) {
        cairo_set_source_rgba(get(), color[0], color[1], color[2], opacity);
    }

    void SetFont(double size, bool bold = false) {
        cairo_select_font_face(get(), "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                               bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
        cairo_set_font_size(get(), size);
    }

    double TextWidth(const std::string &text) {
        cairo_text_extents_t extents;
        cairo_text_extents(get(), text.c_str(), &extents);
        return extents.x_advance;
    }

    /// Text on the baseline `y`, rotated by a quarter turn to the left if `upright`.
    void Text(double x, double y, const std::string &text, Anchor anchor, bool upright = false) {
        const double shift = anchor == Anchor::kStart ? 0 : TextWidth(text) * (anchor == Anchor::kEnd ? 1 : 0.5);
        cairo_save(get());
        cairo_translate(get(), x, y);
        cairo_rotate(get(), upright ? -std::numbers::pi / 2 : 0);
        cairo_move_to(get(), -shift, 0);
        cairo_show_text(get(), text.c_str());
        cairo_restore(get());
    }

    /// A line one pixel wide that lies on whole pixels, so that it is crisp.
    void Hairline(double x0, double y0, double x1, double y1) {
        cairo_set_line_width(get(), 1);
        cairo_move_to(get(), std::floor(x0) + 0.5, std::floor(y0) + 0.5);
        cairo_line_to(get(), std::floor(x1) + 0.5, std::floor(y1) + 0.5);
        cairo_stroke(get());
    }

    /// The image as PNG; throws OutOfMemoryError or ValueError for whatever went wrong while drawing.
    std::string Png() {
        std::string bytes;
        cairo_status_t status = cairo_status(get());
        if (status == CAIRO_STATUS_SUCCESS) {
            status = cairo_surface_write_to_png_stream(
                surface_.get(),
                [](void *closure, const unsigned char *data, unsigned int length) {
                    static_cast<std::string *>(closure)->append(reinterpret_cast<const char *>(data), length);
                    return CAIRO_STATUS_SUCCESS;
                },
                &bytes);
        }
        if (status == CAIRO_STATUS_NO_MEMORY) {
            throw OutOfMemoryError("WriteLinePlot: no memory for the image");
        }
        if (status != CAIRO_STATUS_SUCCESS) {
            throw ValueError(std::string("WriteLinePlot: expected a drawing that cairo can do, got: ") +
                             cairo_status_to_string(status));
        }
        return bytes;
    }

private:
    std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t *)> surface_;
    std::unique_ptr<cairo_t, void (*)(cairo_t *)> cairo_;
};

struct Range {
    double low = std::numeric_limits<double>::infinity();
    double high = -std::numeric_limits<double>::infinity();

    void Add(double value) {
        low = std::min(low, value);
        high = std::max(high, value);
    }

    /// A range with some air around the data; one of no width or no data gets a width.
    Range WithMargin(double share) const {
        if (low > high) {
            return {0, 1};
        }
        const double extent = high - low;
        // Differences near the last bit can't be drawn.
        const double tiny = std::max({std::abs(low), std::abs(high), 1e-300}) * 1e-9;
        const double margin = extent > tiny ? extent * share : (low == 0 ? 0.5 : std::abs(low) * 0.1);
        return {low - margin, high + margin};
    }
};

void SetRanges(const PlotPanel &panel, PlotFrame *frame) {
    Range x;
    Range y;
    for (const PlotSeries &series : panel.series) {
        for (size_t i = 0; i < series.x.size(); ++i) {
            if (IsDrawable(series.x[i]) && IsDrawable(series.y[i])) {
                x.Add(series.x[i]);
                y.Add(series.y[i]);
            }
        }
    }
    if (IsDrawable(panel.y_min)) {
        y.Add(panel.y_min);
    }
    if (IsDrawable(panel.y_max)) {
        y.Add(panel.y_max);
    }
    // One epoch alone needs room for whole numbers at its sides.
    const Range across = panel.whole_x && x.low == x.high ? Range{x.low - 1, x.high + 1} : x.WithMargin(0.03);
    Range up = y.WithMargin(0.06);
    up.low = IsDrawable(panel.y_min) ? panel.y_min : up.low;
    up.high = IsDrawable(panel.y_max) ? panel.y_max : up.high;
    if (!(up.low < up.high)) {
        up = y.WithMargin(0.06);
    }
    frame->x_min = across.low;
    frame->x_max = across.high;
    frame->y_min = up.low;
    frame->y_max = up.high;
}

AxisTicks XTicks(const PlotPanel &panel, const PlotFrame &frame) {
    constexpr double kPixelsBetween = 70;
    return NiceTicks(frame.x_min, frame.x_max, std::max(2, static_cast<int>(frame.width / kPixelsBetween)),
                     panel.whole_x);
}

AxisTicks YTicks(const PlotFrame &frame) {
    constexpr double kPixelsBetween = 42;
    return NiceTicks(frame.y_min, frame.y_max, std::max(2, static_cast<int>(frame.height / kPixelsBetween)));
}

// Fits the axes into the panel's part of the image: [left, left + width) and from `top` down.
PlotFrame MakeFrame(Canvas *canvas, const PlotPanel &panel, double left, double width, double top, double bottom) {
    PlotFrame frame;
    SetRanges(panel, &frame);
    frame.top = top + (panel.title.empty() ? 4 : kPanelTitleSize + 14);
    const double below = kTickTextSize + 12 + (panel.x_label.empty() ? 0 : kTextSize + 10);
    frame.height = std::max(10.0, bottom - below - frame.top);
    canvas->SetFont(kTickTextSize);
    double label_width = 0;
    for (const std::string &label : YTicks(frame).labels) {
        label_width = std::max(label_width, canvas->TextWidth(label));
    }
    frame.left = std::ceil(left + label_width + 10 + (panel.y_label.empty() ? 0 : kTextSize + 12));
    frame.width = std::max(10.0, left + width - frame.left);
    return frame;
}

void DrawAxes(Canvas *canvas, const PlotPanel &panel, const PlotFrame &frame) {
    const double right = frame.left + frame.width;
    const double bottom = frame.top + frame.height;
    const AxisTicks x_ticks = XTicks(panel, frame);
    const AxisTicks y_ticks = YTicks(frame);
    canvas->SetFont(kTickTextSize);
    for (size_t i = 0; i < x_ticks.values.size(); ++i) {
        const double x = frame.PixelX(x_ticks.values[i]);
        canvas->Use(kGrid);
        canvas->Hairline(x, frame.top, x, bottom);
        canvas->Use(kSoftInk);
        canvas->Hairline(x, bottom, x, bottom + 4);
        canvas->Text(x, bottom + 8 + kTickTextSize, x_ticks.labels[i], Anchor::kMiddle);
    }
    for (size_t i = 0; i < y_ticks.values.size(); ++i) {
        const double y = frame.PixelY(y_ticks.values[i]);
        canvas->Use(kGrid);
        canvas->Hairline(frame.left, y, right, y);
        canvas->Use(kSoftInk);
        canvas->Hairline(frame.left - 4, y, frame.left, y);
        canvas->Text(frame.left - 9, y + kTickTextSize * 0.36, y_ticks.labels[i], Anchor::kEnd);
    }
    canvas->Use(kSoftInk);
    canvas->Hairline(frame.left, frame.top, frame.left, bottom);
    canvas->Hairline(frame.left, bottom, right, bottom);

    canvas->Use(kInk);
    canvas->SetFont(kTextSize);
    canvas->Text(frame.left + frame.width / 2, bottom + kTickTextSize + 16 + kTextSize, panel.x_label, Anchor::kMiddle);
    double label_width = 0;
    canvas->SetFont(kTickTextSize);
    for (const std::string &label : y_ticks.labels) {
        label_width = std::max(label_width, canvas->TextWidth(label));
    }
    canvas->SetFont(kTextSize);
    canvas->Text(frame.left - label_width - 20, frame.top + frame.height / 2, panel.y_label, Anchor::kMiddle, true);
    canvas->SetFont(kPanelTitleSize);
    canvas->Text(frame.left + frame.width / 2, frame.top - 12, panel.title, Anchor::kMiddle);
}

Color ColorOf(const PlotPanel &panel, size_t index) {
    const int color = panel.series[index].color;
    return PlotColor(color < 0 ? static_cast<int>(index) : color);
}

// A pixel position kept within what cairo's fixed-point numbers can hold.
double Held(double position) {
    return std::clamp(position, -1e5, 1e5);
}

void DrawSeries(Canvas *canvas, const PlotSeries &series, const Color &color, const PlotFrame &frame) {
    cairo_t *cairo = canvas->get();
    cairo_save(cairo);
    // Markers at the edge may stick out a little.
    constexpr double kMarkerRadius = 3.6;
    cairo_rectangle(cairo, frame.left - kMarkerRadius, frame.top - kMarkerRadius, frame.width + 2 * kMarkerRadius,
                    frame.height + 2 * kMarkerRadius);
    cairo_clip(cairo);
    canvas->Use(color, std::clamp(series.opacity, 0.0, 1.0));
    // Noise in the background is thin as well as pale.
    cairo_set_line_width(cairo, series.opacity < 1 ? kLineWidth / 2 : kLineWidth);
    constexpr double kDashes[] = {6, 5};
    cairo_set_dash(cairo, kDashes, series.dashed ? 2 : 0, 0);
    const auto drawable = [&](size_t i) {
        return i < series.x.size() && IsDrawable(series.x[i]) && IsDrawable(series.y[i]);
    };
    for (size_t i = 0; i < series.x.size(); ++i) {
        if (!drawable(i)) {
            continue;
        }
        const double x = Held(frame.PixelX(series.x[i]));
        const double y = Held(frame.PixelY(series.y[i]));
        if (i > 0 && drawable(i - 1)) {
            cairo_line_to(cairo, x, y);
        } else {
            cairo_move_to(cairo, x, y);
        }
    }
    cairo_stroke(cairo);
    for (size_t i = 0; i < series.x.size(); ++i) {
        // A point between two gaps would not show otherwise.
        const bool alone = (i == 0 || !drawable(i - 1)) && !drawable(i + 1);
        if (drawable(i) && (series.markers || alone)) {
            cairo_arc(cairo, Held(frame.PixelX(series.x[i])), Held(frame.PixelY(series.y[i])), kMarkerRadius, 0,
                      2 * std::numbers::pi);
            cairo_fill(cairo);
        }
    }
    cairo_restore(cairo);
}

struct Box {
    double left;
    double top;
    double width;
    double height;
};

// The corner of the axes where a box hides the least of the lines.
Box BestCorner(const PlotPanel &panel, const PlotFrame &frame, double width, double height) {
    constexpr double kInset = 10;
    Box best = {};
    double fewest = std::numeric_limits<double>::infinity();
    for (const int corner : {1, 0, 3, 2}) {
        const bool right = corner % 2 == 1;
        const Box box = {right ? frame.left + frame.width - width - kInset : frame.left + kInset,
                         corner >= 2 ? frame.top + frame.height - height - kInset : frame.top + kInset, width, height};
        double hidden = 0;
        for (const PlotSeries &series : panel.series) {
            const auto points = static_cast<double>(series.x.size());
            const auto hides = [&box](double x, double y) {
                return x > box.left - 6 && x < box.left + box.width + 6 && y > box.top - 6 &&
                       y < box.top + box.height + 6;
            };
            for (size_t i = 0; i < series.x.size(); ++i) {
                // Long straight pieces count along their length, not only at their ends.
                constexpr int kSteps = 8;
                const size_t next = std::min(i + 1, series.x.size() - 1);
                for (int step = 0; step < kSteps; ++step) {
                    const double t = static_cast<double>(step) / kSteps;
                    const double x = frame.PixelX(series.x[i] + t * (series.x[next] - series.x[i]));
                    const double y = frame.PixelY(series.y[i] + t * (series.y[next] - series.y[i]));
                    hidden += hides(x, y) ? 1 / points : 0;
                }
            }
        }
        if (hidden < fewest) {
            fewest = hidden;
            best = box;
        }
    }
    return best;
}

void DrawLegend(Canvas *canvas, const PlotPanel &panel, const PlotFrame &frame) {
    constexpr double kRow = 20;
    constexpr double kSample = 26;
    constexpr double kInside = 10;
    canvas->SetFont(kTickTextSize);
    double rows = 0;
    double widest = 0;
    for (const PlotSeries &series : panel.series) {
        rows += series.name.empty() ? 0 : 1;
        widest = std::max(widest, canvas->TextWidth(series.name));
    }
    if (rows == 0) {
        return;
    }
    const Box box = BestCorner(panel, frame, widest + kSample + 3 * kInside, rows * kRow + kInside);
    cairo_t *cairo = canvas->get();
    cairo_rectangle(cairo, std::floor(box.left) + 0.5, std::floor(box.top) + 0.5, std::ceil(box.width), box.height);
    canvas->Use(kWhite, 0.88);
    cairo_fill_preserve(cairo);
    canvas->Use(kGrid);
    cairo_set_line_width(cairo, 1);
    cairo_stroke(cairo);
    double y = box.top + kInside / 2 + kRow / 2;
    for (size_t i = 0; i < panel.series.size(); ++i) {
        if (panel.series[i].name.empty()) {
            continue;
        }
        PlotSeries sample = panel.series[i];
        sample.x = {0, 1};
        sample.y = {0, 0};
        sample.markers = false;
        const PlotFrame place = {box.left + kInside, y, kSample, 1, 0, 1, 0, 1};
        PlotFrame middle = place;
        middle.top = y - 1;
        DrawSeries(canvas, sample, ColorOf(panel, i), middle);
        if (panel.series[i].markers) {
            sample.x = {0.5};
            sample.y = {0};
            sample.markers = true;
            DrawSeries(canvas, sample, ColorOf(panel, i), middle);
        }
        canvas->Use(kInk);
        canvas->Text(box.left + kInside + kSample + kInside, y + kTickTextSize * 0.36, panel.series[i].name,
                     Anchor::kStart);
        y += kRow;
    }
}

void Check(const std::vector<PlotPanel> &panels, const PlotOptions &options) {
    if (panels.empty()) {
        throw ValueError("WriteLinePlot: expected at least one panel, got none");
    }
    for (const PlotPanel &panel : panels) {
        for (const PlotSeries &series : panel.series) {
            if (series.x.size() != series.y.size()) {
                throw ValueError("WriteLinePlot: expected as many x as y in series '" + series.name + "', got " +
                                 std::to_string(series.x.size()) + " and " + std::to_string(series.y.size()));
            }
        }
    }
    const int narrowest = kSmallestPanel * static_cast<int>(std::min<size_t>(panels.size(), kSmallestPanel));
    if (options.width < narrowest || options.height < kSmallestPanel || options.width > kLargestSide ||
        options.height > kLargestSide) {
        throw ValueError("WriteLinePlot: expected a size from " + std::to_string(narrowest) + " x " +
                         std::to_string(kSmallestPanel) + " to 10000 x 10000, got " + std::to_string(options.width) +
                         " x " + std::to_string(options.height));
    }
}

void WriteFile(const std::string &path, const std::string &bytes) {
    std::FILE *file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) {
        throw IoError("WriteLinePlot: can't create '" + path + "': " + std::strerror(errno));
    }
    const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
    const bool flushed = std::fflush(file) == 0;
    const int error = errno;
    std::fclose(file);
    if (!written || !flushed) {
        throw IoError("WriteLinePlot: can't write to '" + path + "': " + std::strerror(error));
    }
}

}  // namespace

std::array<double, 3> PlotColor(int index) {
    static constexpr Color kColors[] = {{0.122, 0.420, 0.706}, {0.902, 0.424, 0.098}, {0.180, 0.580, 0.294},
                                        {0.776, 0.200, 0.220}, {0.490, 0.341, 0.686}, {0.475, 0.333, 0.282},
                                        {0.831, 0.376, 0.639}, {0.082, 0.616, 0.678}};
    constexpr int kNumColors = static_cast<int>(std::size(kColors));
    return kColors[((index % kNumColors) + kNumColors) % kNumColors];
}

std::vector<PlotFrame> WriteLinePlot(const std::string &path, const std::vector<PlotPanel> &panels,
                                     const PlotOptions &options) {
    Check(panels, options);
    Canvas canvas(options.width, options.height);
    double top = kPadding;
    if (!options.title.empty()) {
        canvas.Use(kInk);
        canvas.SetFont(kTitleSize, true);
        canvas.Text(options.width / 2.0, top + kTitleSize - 2, options.title, Anchor::kMiddle);
        top += kTitleSize + 14;
    }
    const auto count = static_cast<double>(panels.size());
    constexpr double kBetween = 28;
    const double width = (options.width - 2 * kPadding - (count - 1) * kBetween) / count;
    std::vector<PlotFrame> frames;
    for (const PlotPanel &panel : panels) {
        const double left = kPadding + static_cast<double>(frames.size()) * (width + kBetween);
        frames.push_back(MakeFrame(&canvas, panel, left, width, top, options.height - kPadding + 4));
        DrawAxes(&canvas, panel, frames.back());
        for (size_t i = 0; i < panel.series.size(); ++i) {
            DrawSeries(&canvas, panel.series[i], ColorOf(panel, i), frames.back());
        }
        DrawLegend(&canvas, panel, frames.back());
    }
    WriteFile(path, canvas.Png());
    return frames;
}

}  // namespace infini_train::example
