#include "cli/terminal/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/terminal/output.h"
#include "cli/terminal/word_wrap.h"

namespace fathom::cli {
namespace {

constexpr auto kQuietTime = std::chrono::seconds(1);
constexpr auto kRedrawTime = std::chrono::milliseconds(100);
constexpr int kLongestBar = 40;

}  // namespace

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)),
      on_terminal_(::isatty(STDERR_FILENO) == 1),
      next_draw_(Clock::now() + kQuietTime) {}

ProgressBar::~ProgressBar() { Clear(); }

void ProgressBar::Clear() {
  if (std::exchange(drawn_, false)) {
    PrintError("\r\x1b[K");
  }
}

void ProgressBar::Update(double share) {
  if (!on_terminal_) return;
  const Clock::time_point now = Clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + kRedrawTime;
  drawn_ = true;
  const int columns = TerminalColumns(STDERR_FILENO);
  PrintError(fmt::format("\r{}\x1b[K", RenderProgress(label_, share, columns > 0 ? columns : 80)));
}

void ProgressBar::Update(double share, std::string label) {
  label_ = std::move(label);
  Update(share);
}

std::string RenderProgress(const std::string& label, double share, int columns) {
  const double clamped = share >= 0 ? std::min(share, 1.0) : 0.0;  // NaN is 0
  const int percent = static_cast<int>(std::floor(clamped * 100));
  constexpr int kAround = 9;  // " [", "] 100%" and the last column, which wraps on some terminals
  const int width = std::min(kLongestBar, columns - kAround - static_cast<int>(label.size()));
  if (width < 4) return fmt::format("{:3}%", percent);
  const int n_full = static_cast<int>(std::floor(clamped * width));
  return fmt::format("{} [{:#<{}}{:.<{}}] {:3}%", label, "", n_full, "", width - n_full, percent);
}

}  // namespace fathom::cli
