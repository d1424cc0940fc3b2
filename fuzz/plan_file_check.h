// What must hold for any bytes that a user gives as a hardware file or a trace of experts.
#ifndef FATHOM_FUZZ_PLAN_FILE_CHECK_H_
#define FATHOM_FUZZ_PLAN_FILE_CHECK_H_

#include <string>
#include <string_view>

namespace fathom::fuzz {

// Reads `input` as both. Returns what is wrong with the outcome, or "".
std::string CheckPlanFile(std::string_view input);

}  // namespace fathom::fuzz

#endif  // FATHOM_FUZZ_PLAN_FILE_CHECK_H_
