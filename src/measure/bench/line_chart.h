// LineChart: measurements as a picture, an SVG file.
#pragma once

#include <string>
#include <vector>

namespace fathom::benchmark {

// x, y, low and high are at least 0. A bar goes from low to high.
struct ChartPoint {
  double x;
  double y;
  double low;
  double high;
  std::string title;  // shown where the mouse rests
};

struct ChartLine {
  std::string name;
  std::vector<ChartPoint> points;  // by ascending x
};

// Both axes begin at 0.
struct ChartPanel {
  std::string title;
  std::string x_label;
  std::string y_label;
  double least_x = 10;  // the axis goes at least so far: its steps are whole numbers then
  std::vector<ChartLine> lines;
};

struct LineChart {
  std::string title;
  std::string subtitle;
  std::vector<ChartPanel> panels;  // one below the other
};

// Any text may be in it: what XML or ASCII does not have becomes '?'.
std::string ToSvg(const LineChart& chart);

}  // namespace fathom::benchmark
