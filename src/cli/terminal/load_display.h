// LoadDisplay: shows the reports of a runtime as a progress bar and lines of the log.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "cli/terminal/interrupt.h"
#include "cli/terminal/log.h"
#include "cli/terminal/progress.h"
#include "planning/options.h"

namespace fathom::cli {

// Must outlive the runtime that reports to it.
class LoadDisplay {
 public:
  // Shows that the model in `directory` loads. Ctrl-C ends the program meanwhile if `interrupt` is
  // given. Also calls `progress`.
  LoadDisplay(const std::filesystem::path& directory, Log& log, Interrupt* interrupt = nullptr,
              std::function<void(double share)> progress = {})
      : log_(log),
        interrupt_(interrupt),
        progress_(std::move(progress)),
        bar_("loading " + directory.filename().string()) {}
  LoadDisplay(const LoadDisplay&) = delete;
  LoadDisplay& operator=(const LoadDisplay&) = delete;

  RuntimeEvents events() {
    RuntimeEvents events = {
        .warn = [this](const std::string& message) { log_.Warn("{}", message); },
        .progress =
            [this](double share) {
              share < 1 ? bar_.Update(share) : bar_.Clear();
              if (progress_) progress_(share);
              if (interrupt_ != nullptr) interrupt_->EndProgramIfPressed();
            }};
    if (log_.Shows(LogLevel::kInfo)) {
      events.info = [this](const std::string& message) { log_.Info("{}", message); };
    }
    return events;
  }

 private:
  Log& log_;
  Interrupt* interrupt_;
  std::function<void(double share)> progress_;
  ProgressBar bar_;
};

}  // namespace fathom::cli
