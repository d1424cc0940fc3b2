#include "cli/chat_prompt.h"

namespace fathom::cli {

Result<PromptProfile> ChooseProfile(const std::string& name, const std::filesystem::path& model,
                                    Log& log) {
  if (!name.empty()) {
    return FindProfile(name);
  }
  const ProfileDetection detection = DetectProfile(model);
  if (!detection.is_certain) {
    log.Info("{}: nothing says which chat format it was trained on; assuming {}", model.string(),
             detection.profile.name);
  }
  return detection.profile;
}

Result<std::vector<Token>> EncodeSpans(const Tokenizer& tokenizer, const EncodedPrompt& prompt) {
  std::vector<TextSpan> spans;
  spans.reserve(prompt.spans.size());
  for (const PromptSpan& span : prompt.spans) {
    spans.push_back({.text = span.text, .trusted = span.trusted});
  }
  return tokenizer.Encode(spans);
}

}  // namespace fathom::cli
