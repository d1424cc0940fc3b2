#include "api/common/hosted_defaults.h"

#include <algorithm>

#include "base/result.h"

namespace fathom {

HostedChat ToHostedChat(const EncodeOptions& options, const PromptProfile& profile, bool has_tools,
                        std::int64_t room) {
  const Result<EffortLevel> effort = FindEffort(profile, options.effort);
  const bool thinks = options.thinking == ThinkingMode::kThinking && effort && effort->thinks;
  const Result<EffortLevel> highest = FindEffort(profile, "max");
  return {.thinks = thinks,
          .thinks_most = thinks && highest && effort->prefix == highest->prefix,
          .has_tools = has_tools,
          .room = room};
}

void ApplyHostedDefaults(const HostedChat& chat, SamplingParameters* sampling) {
  if (!sampling->max_tokens) {
    const std::int64_t limit = chat.thinks_most ? 131'072 : chat.thinks ? 65'536 : 8'192;
    sampling->max_tokens = std::max<std::int64_t>(1, std::min(limit, chat.room));
  }
  if (!chat.thinks) return;
  sampling->temperature = 1;
  sampling->top_p = chat.has_tools ? 0.95 : 1;
}

}  // namespace fathom
