// ProgressBar: one line on the terminal while something takes long.
#pragma once

#include <chrono>
#include <string>

namespace fathom::cli {

// "label [#####.....]  52%", redrawn in place on standard error. Nothing is drawn in the first
// second, nor where standard error is no terminal. One thread.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  // Clears.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // share: 0 to 1.
  void Update(double share);
  // Also changes the label.
  void Update(double share, std::string label);
  // Removes the line.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  const bool on_terminal_;
  Clock::time_point next_draw_;
  bool drawn_ = false;
};

// The line itself, for a terminal of `columns`; shorter than that.
std::string RenderProgress(const std::string& label, double share, int columns);

}  // namespace fathom::cli
