#include "tests/testing/fuzz_seeds.h"

#include "fuzz/sse_stream_check.h"

namespace fathom::testing {

INSTANTIATE_TEST_SUITE_P(Streams, FuzzSeedsTest,
                         ::testing::Values(FuzzTarget{"sse_stream", fuzz::CheckSseStream, 2}),
                         NameOfTarget);

}  // namespace fathom::testing
