#include "cli/chat_profile.h"

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

}  // namespace fathom::cli
