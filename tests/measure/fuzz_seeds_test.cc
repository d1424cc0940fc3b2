#include "tests/testing/fuzz_seeds.h"

#include "fuzz/plan_file_check.h"
#include "fuzz/sse_stream_check.h"

namespace fathom::testing {

INSTANTIATE_TEST_SUITE_P(Targets, FuzzSeedsTest,
                         ::testing::Values(FuzzTarget{"plan_file", fuzz::CheckPlanFile},
                                           FuzzTarget{"sse_stream", fuzz::CheckSseStream, 2}),
                         NameOfTarget);

}  // namespace fathom::testing
