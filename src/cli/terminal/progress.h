// ProgressBar: one line on the terminal during long work.
#pragma once

#include <chrono>
#include <string>

namespace fathom::cli {

// Shows "label [#####.....]  52%", redrawn in place on standard error. Draws nothing in the first
// second, or if standard error is not a terminal. One thread.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  // Removes the line.
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

// Returns the line for a terminal with `columns`; it is shorter than that.
std::string RenderProgress(const std::string& label, double share, int columns);

}  // namespace fathom::cli
