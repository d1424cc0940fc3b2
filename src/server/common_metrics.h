// The names under which dashboards look for what a server of language models counts.
#pragma once

#include <string>
#include <string_view>

#include "engine/metrics.h"

namespace fathom {

// `text` (the text format of Prometheus), and behind it, once more under the names that vLLM has
// given them, those of its metrics that vLLM has too: vllm:num_requests_running and so on, with the
// label model_name. `now` gives those that no line of ours has. docs/spec/serving.md section 12.
std::string WithCommonNames(std::string_view text, const MetricsSnapshot& now,
                            std::string_view model_name);

}  // namespace fathom
