#include "cli/terminal/load_display.h"

namespace fathom::cli {

RuntimeEvents LoadDisplay::events() {
  RuntimeEvents events = {.warn = [this](const std::string& message) { log_.Warn("{}", message); },
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

}  // namespace fathom::cli
