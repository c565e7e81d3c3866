#pragma once

#include <array>
#include <limits>
#include <string>
#include <vector>

namespace infini_train::example {

/// One line of a plot. A point that isn't finite leaves a gap.
struct PlotSeries {
    std::string name;  // for the legend; empty: not listed there
    std::vector<double> x;
    std::vector<double> y;
    int color = -1;  // index for PlotColor; -1: the series' position in its panel
    bool dashed = false;
    bool markers = false;  // a dot at each point
    double opacity = 1;    // below 1 for noise in the background
};

/// One pair of axes.
struct PlotPanel {
    std::string title;
    std::string x_label;
    std::string y_label;
    std::vector<PlotSeries> series;
    double y_min = std::numeric_limits<double>::quiet_NaN();  // ends of the axis; not finite: from the data
    double y_max = std::numeric_limits<double>::quiet_NaN();
    bool whole_x = false;  // marks only at whole numbers, for epochs
};

struct PlotOptions {
    std::string title;
    int width = 1200;  // pixels of the whole image
    int height = 480;
};

/// Where a panel's axes lie in the image: pixel (left, top) shows (x_min, y_max), the opposite corner (x_max, y_min).
struct PlotFrame {
    double left = 0;
    double top = 0;
    double width = 0;
    double height = 0;
    double x_min = 0;
    double x_max = 1;
    double y_min = 0;
    double y_max = 1;

    double PixelX(double x) const { return left + (x - x_min) / (x_max - x_min) * width; }
    double PixelY(double y) const { return top + (y_max - y) / (y_max - y_min) * height; }
};

/// The red, green and blue (0 to 1) of the line colours, which repeat after eight.
std::array<double, 3> PlotColor(int index);

/// Draws the panels side by side into a PNG file and returns where their axes are. Throws IoError with the system's
/// reason if the file can't be written; ValueError if there is no panel, a series' x and y differ in length, or the
/// size isn't between 100 x 100 a panel and 10000 x 10000.
std::vector<PlotFrame> WriteLinePlot(const std::string &path, const std::vector<PlotPanel> &panels,
                                     const PlotOptions &options = {});

}  // namespace infini_train::example
