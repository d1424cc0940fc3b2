#include "tests/testing/fuzz_seeds.h"

#include "fuzz/constraint_check.h"

namespace fathom::testing {

INSTANTIATE_TEST_SUITE_P(Targets, FuzzSeedsTest,
                         ::testing::Values(FuzzTarget{"gbnf", fuzz::CheckGbnf},
                                           FuzzTarget{"regex", fuzz::CheckRegex},
                                           FuzzTarget{"json_schema", fuzz::CheckJsonSchema}),
                         NameOfTarget);

}  // namespace fathom::testing
