#include "tests/testing/fuzz_seeds.h"

#include "fuzz/json_check.h"

namespace fathom::testing {

INSTANTIATE_TEST_SUITE_P(Targets, FuzzSeedsTest,
                         ::testing::Values(FuzzTarget{"json", fuzz::CheckJson}), NameOfTarget);

}  // namespace fathom::testing
