#include "benchmark/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

namespace fathom::benchmark {
namespace {

constexpr double kWidth = 860;
constexpr double kPanelHeight = 360;
constexpr double kHeaderHeight = 56;
constexpr double kLeft = 80;
constexpr double kRight = 190;  // room for the names of the lines
constexpr double kTop = 36;
constexpr double kBottom = 56;
constexpr double kFewestTokens = 10;  // of the axis of depths: its steps are whole
// Distinct also in grey and for most colour-blind eyes (Okabe and Ito).
constexpr std::string_view kColours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                         "#E69F00", "#56B4E9", "#000000"};

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      default:
        // Control characters are not allowed in XML, and what is not ASCII may not be UTF-8.
        escaped +=
            static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7E ? '?' : c;
    }
  }
  return escaped;
}

// Rows that differ in depth alone, by ascending depth.
struct Line {
  std::string name;
  std::vector<const RowResult*> points;
};

std::vector<Line> LinesOf(const Report& report, RowSpec::Kind kind) {
  std::vector<Line> lines;
  for (const RowResult& row : report.rows) {
    if (row.row.kind != kind) {
      continue;
    }
    RowSpec spec = row.row;
    spec.depth = 0;
    const std::string name = Name(spec);
    auto line =
        std::find_if(lines.begin(), lines.end(), [&](const Line& one) { return one.name == name; });
    if (line == lines.end()) {
      line = lines.insert(lines.end(), {name, {}});
    }
    line->points.push_back(&row);
  }
  for (Line& line : lines) {
    std::sort(line.points.begin(), line.points.end(),
              [](const RowResult* a, const RowResult* b) { return a->row.depth < b->row.depth; });
  }
  return lines;
}

// 0, step, 2 step ... up to the first that is not below `most`; 4 to 10 of them. Steps are 1, 2 or
// 5 times a power of ten.
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
    if (axis.step >= wanted) {
      break;
    }
  }
  axis.n_steps = std::max(1, static_cast<int>(std::ceil(most / axis.step)));
  return axis;
}

// One panel: axes, lines, names.
class Panel {
 public:
  Panel(std::string_view title, std::vector<Line> lines, double top)
      : title_(title), lines_(std::move(lines)), top_(top + kTop) {
    double depth = 0;
    double tok_s = 0;
    for (const Line& line : lines_) {
      for (const RowResult* point : line.points) {
        depth = std::max(depth, static_cast<double>(point->row.depth));
        tok_s = std::max(tok_s, point->tok_s.max);
      }
    }
    x_axis_ = AxisTo(std::max(depth, kFewestTokens));
    y_axis_ = AxisTo(tok_s);
  }

  std::string Draw() {
    Text(kLeft, top_ - 14, "start", title_, "font-weight=\"bold\"");
    DrawAxes();
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      DrawLine(lines_[i], kColours[i % std::size(kColours)], static_cast<double>(i));
    }
    return std::move(out_);
  }

 private:
  static constexpr double kInnerWidth = kWidth - kLeft - kRight;
  static constexpr double kInnerHeight = kPanelHeight - kTop - kBottom;

  double X(double depth) const { return kLeft + kInnerWidth * depth / x_axis_.end(); }
  double Y(double tok_s) const { return top_ + kInnerHeight * (1 - tok_s / y_axis_.end()); }

  void Segment(double x1, double y1, double x2, double y2, std::string_view style) {
    fmt::format_to(std::back_inserter(out_),
                   "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                   x2, y2, style);
  }
  void Text(double x, double y, std::string_view anchor, std::string_view text,
            std::string_view style = "") {
    fmt::format_to(std::back_inserter(out_),
                   "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" {}>{}</text>\n", x, y,
                   anchor, style, Escaped(text));
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
      Text(X(value), bottom + 20, "middle", fmt::format("{:.0f}", value));
    }
    Segment(kLeft, top_, kLeft, bottom, kAxis);
    Text(kLeft + kInnerWidth / 2, bottom + 42, "middle", "tokens in the cache before");
    const double middle = (top_ + bottom) / 2;
    Text(22, middle, "middle", "tokens per second",
         fmt::format("transform=\"rotate(-90 22 {:.1f})\"", middle));
  }

  void DrawLine(const Line& line, std::string_view colour, double index) {
    const std::string stroke = fmt::format("stroke=\"{}\" stroke-width=\"2\"", colour);
    std::string path;
    for (const RowResult* point : line.points) {
      fmt::format_to(std::back_inserter(path), "{:.1f},{:.1f} ",
                     X(static_cast<double>(point->row.depth)), Y(point->tok_s.median));
    }
    fmt::format_to(std::back_inserter(out_), "<polyline points=\"{}\" fill=\"none\" {}/>\n", path,
                   stroke);
    for (const RowResult* point : line.points) {
      const double x = X(static_cast<double>(point->row.depth));
      Segment(x, Y(point->tok_s.min), x, Y(point->tok_s.max), stroke);
      fmt::format_to(std::back_inserter(out_),
                     "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"><title>{}: {:.2f} "
                     "tok/s ({:.2f} to {:.2f})</title></circle>\n",
                     x, Y(point->tok_s.median), colour, Name(point->row), point->tok_s.median,
                     point->tok_s.min, point->tok_s.max);
    }
    const double y = top_ + 8 + 20 * index;
    const double x = kLeft + kInnerWidth + 20;
    Segment(x, y, x + 24, y, stroke);
    Text(x + 32, y + 4, "start", line.name);
  }

  const std::string title_;
  const std::vector<Line> lines_;
  const double top_;
  Axis x_axis_;
  Axis y_axis_;
  std::string out_;
};

}  // namespace

std::string ToSvg(const Report& report) {
  std::string panels;
  double height = kHeaderHeight;
  for (const auto& [kind, title] : {std::pair(RowSpec::Kind::kDecode, "Decoding, all sequences"),
                                    std::pair(RowSpec::Kind::kPrefill, "Prefill")}) {
    std::vector<Line> lines = LinesOf(report, kind);
    if (!lines.empty()) {
      panels += Panel(title, std::move(lines), height).Draw();
      height += kPanelHeight;
    }
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"{2:.0f}\" y=\"26\" font-size=\"17\" font-weight=\"bold\">{3}</text>\n"
      "<text x=\"{2:.0f}\" y=\"46\">{4}</text>\n"
      "{5}</svg>\n",
      kWidth, height, kLeft, Escaped(report.model),
      Escaped(fmt::format(
          "{} thread{}, {}, pages of {} KiB; the machine reads {:.1f} GB/s and does "
          "{:.0f} GFLOP/s",
          report.n_threads, report.n_threads == 1 ? "" : "s", report.isa, report.page_bytes / 1024,
          report.roofline.read_gb_s, report.roofline.fma_gflop_s)),
      panels);
}

}  // namespace fathom::benchmark
