#include "tests/testing/fuzz_seeds.h"

#include "fuzz/content_decoder_check.h"
#include "fuzz/http_request_check.h"

namespace fathom::testing {

INSTANTIATE_TEST_SUITE_P(Targets, FuzzSeedsTest,
                         ::testing::Values(FuzzTarget{"content_decoder", fuzz::CheckContentDecoder},
                                           FuzzTarget{"http_request", fuzz::CheckHttpRequest, 2}),
                         NameOfTarget);

}  // namespace fathom::testing
