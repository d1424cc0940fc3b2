#include "tests/testing/fuzz_seeds.h"

#include "fuzz/plan_file_check.h"

namespace fathom::testing {

INSTANTIATE_TEST_SUITE_P(PlanFiles, FuzzSeedsTest,
                         ::testing::Values(FuzzTarget{"plan_file", fuzz::CheckPlanFile}),
                         NameOfTarget);

}  // namespace fathom::testing
