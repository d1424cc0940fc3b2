// LineChart: draws measurements as an SVG file.
#pragma once

#include <string>
#include <vector>

namespace fathom::measure {

// x, y, low and high are at least 0. A bar goes from low to high.
struct ChartPoint {
  double x;
  double y;
  double low;
  double high;
  std::string title;  // shown when the mouse points at it
};

struct ChartLine {
  std::string name;
  std::vector<ChartPoint> points;  // ascending x
};

// Both axes begin at 0.
struct ChartPanel {
  std::string title;
  std::string x_label;
  std::string y_label;
  double least_x = 10;  // the least end of the x axis; from 10 on, its steps are whole numbers
  std::vector<ChartLine> lines;
};

struct LineChart {
  std::string title;
  std::string subtitle;
  std::vector<ChartPanel> panels;  // one below the other
};

// Replaces characters that XML or ASCII does not have by '?'.
std::string ToSvg(const LineChart& chart);

}  // namespace fathom::measure
