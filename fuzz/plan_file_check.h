// Invariants for any bytes given as a hardware file or a trace of experts.
#pragma once

#include <string>
#include <string_view>

namespace fathom::fuzz {

// Reads `input` as a hardware file and as a trace. Returns what is wrong with the outcome, or "".
std::string CheckPlanFile(std::string_view input);

}  // namespace fathom::fuzz
