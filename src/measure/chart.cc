#include "measure/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

namespace fathom::measure {
namespace {

constexpr double kWidth = 860;
constexpr double kPanelHeight = 360;
constexpr double kHeaderHeight = 56;
constexpr double kLeft = 80;
constexpr double kRight = 190;  // room for the names of the lines
constexpr double kTop = 36;
constexpr double kBottom = 56;
// Distinct also in grey and for most colour-blind eyes (Okabe and Ito).
constexpr std::string_view kColours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                         "#E69F00", "#56B4E9", "#000000"};

std::string Escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else {
      // XML allows no control characters, and other bytes may not be UTF-8.
      escaped += c < 0x20 || c > 0x7E ? '?' : c;
    }
  }
  return escaped;
}

// The marks 0, step, 2 step ... up to the first that is at least `most`: 4 to 10 marks. A step is
// 1, 2 or 5 times a power of ten.
struct Axis {
  double step = 1;
  int n_steps = 1;
  double end() const { return step * n_steps; }
};

Axis AxisTo(double most) {
  const double wanted = std::max(most, 1e-9) / 8;
  const double power = std::pow(10, std::floor(std::log10(wanted)));
  Axis axis;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    axis.step = factor * power;
    if (axis.step >= wanted) break;
  }
  axis.n_steps = std::max(1, static_cast<int>(std::ceil(most / axis.step)));
  return axis;
}

// Draws one panel: axes, lines, names.
class Panel {
 public:
  Panel(const ChartPanel& panel, double top) : panel_(panel), top_(top + kTop) {
    double x = 0;
    double y = 0;
    for (const ChartLine& line : panel_.lines) {
      for (const ChartPoint& point : line.points) {
        x = std::max(x, point.x);
        y = std::max(y, point.high);
      }
    }
    x_axis_ = AxisTo(std::max(x, panel_.least_x));
    y_axis_ = AxisTo(y);
  }

  std::string Draw() {
    Text(kLeft, top_ - 14, "start", panel_.title, "font-weight=\"bold\"");
    DrawAxes();
    for (std::size_t i = 0; i < panel_.lines.size(); ++i) {
      DrawLine(panel_.lines[i], kColours[i % std::size(kColours)], static_cast<double>(i));
    }
    return std::move(out_);
  }

 private:
  static constexpr double kInnerWidth = kWidth - kLeft - kRight;
  static constexpr double kInnerHeight = kPanelHeight - kTop - kBottom;

  double X(double x) const { return kLeft + kInnerWidth * x / x_axis_.end(); }
  double Y(double y) const { return top_ + kInnerHeight * (1 - y / y_axis_.end()); }

  void Segment(double x1, double y1, double x2, double y2, std::string_view style) {
    fmt::format_to(std::back_inserter(out_),
                   "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                   x2, y2, style);
  }
  void Text(double x, double y, std::string_view anchor, std::string_view text,
            std::string_view style = "") {
    fmt::format_to(std::back_inserter(out_),
                   "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", x, y,
                   anchor, style, Escape(text));
  }

  void DrawAxes() {
    constexpr std::string_view kGrid = "stroke=\"#DDDDDD\"";
    constexpr std::string_view kAxis = "stroke=\"#333333\"";
    const double bottom = Y(0);
    for (int i = 0; i <= y_axis_.n_steps; ++i) {
      const double value = i * y_axis_.step;
      Segment(kLeft, Y(value), kLeft + kInnerWidth, Y(value), i == 0 ? kAxis : kGrid);
      Text(kLeft - 8, Y(value) + 4, "end", fmt::format("{:g}", value));
    }
    for (int i = 0; i <= x_axis_.n_steps; ++i) {
      const double value = i * x_axis_.step;
      Segment(X(value), bottom, X(value), bottom + 5, kAxis);
      Text(X(value), bottom + 20, "middle", fmt::format("{:.10g}", value));
    }
    Segment(kLeft, top_, kLeft, bottom, kAxis);
    Text(kLeft + kInnerWidth / 2, bottom + 42, "middle", panel_.x_label);
    const double middle = (top_ + bottom) / 2;
    Text(22, middle, "middle", panel_.y_label,
         fmt::format("transform=\"rotate(-90 22 {:.1f})\"", middle));
  }

  void DrawLine(const ChartLine& line, std::string_view colour, double index) {
    const std::string stroke = fmt::format("stroke=\"{}\" stroke-width=\"2\"", colour);
    std::string path;
    for (const ChartPoint& point : line.points) {
      fmt::format_to(std::back_inserter(path), "{:.1f},{:.1f} ", X(point.x), Y(point.y));
    }
    fmt::format_to(std::back_inserter(out_), "<polyline points=\"{}\" fill=\"none\" {}/>\n", path,
                   stroke);
    for (const ChartPoint& point : line.points) {
      Segment(X(point.x), Y(point.low), X(point.x), Y(point.high), stroke);
      fmt::format_to(
          std::back_inserter(out_),
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"><title>{}</title></circle>\n",
          X(point.x), Y(point.y), colour, Escape(point.title));
    }
    const double y = top_ + 8 + 20 * index;
    const double x = kLeft + kInnerWidth + 20;
    Segment(x, y, x + 24, y, stroke);
    Text(x + 32, y + 4, "start", line.name);
  }

  const ChartPanel& panel_;
  const double top_;
  Axis x_axis_;
  Axis y_axis_;
  std::string out_;
};

}  // namespace

std::string ToSvg(const LineChart& chart) {
  std::string panels;
  double height = kHeaderHeight;
  for (const ChartPanel& panel : chart.panels) {
    panels += Panel(panel, height).Draw();
    height += kPanelHeight;
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"{2:.0f}\" y=\"26\" font-size=\"17\" font-weight=\"bold\">{3}</text>\n"
      "<text x=\"{2:.0f}\" y=\"46\">{4}</text>\n"
      "{5}</svg>\n",
      kWidth, height, kLeft, Escape(chart.title), Escape(chart.subtitle), panels);
}

}  // namespace fathom::measure
