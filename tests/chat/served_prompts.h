// Prompts of servers for the cases of extra/encode_cases.json in which they differ from the
// official encoder: every turn of the assistant begins with its header, and no text stands outside
// of a turn (docs/spec/encoding.md section 12).
#pragma once

#include <map>
#include <optional>
#include <string>

namespace fathom::testing {

// Returns nullopt for the other cases.
inline std::optional<std::string> ServedPrompt(const std::string& name) {
  static const std::map<std::string, std::string> kPrompts = {
      {"consecutive_assistants",
       "<｜begin▁of▁sentence｜><｜User｜>one<｜Assistant｜></think>x<｜end▁of▁sentence｜>"
       "<｜Assistant｜></think>y<｜end▁of▁sentence｜><｜User｜>z<｜Assistant｜></think>"},
      {"latest_reminder_after_user_quirk",
       "<｜begin▁of▁sentence｜><｜User｜>u<｜latest_reminder｜>2026-11-21<｜Assistant｜></think>"},
      {"mid_system_has_no_token",
       "<｜begin▁of▁sentence｜>s<｜User｜>u<｜Assistant｜></think>a<｜end▁of▁sentence｜><｜User｜>"
       "<system-reminder>\nmid\n</system-reminder>\n\nv<｜Assistant｜></think>"},
      {"only_system", "<｜begin▁of▁sentence｜>s<｜Assistant｜></think>"}};
  const auto found = kPrompts.find(name);
  return found == kPrompts.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace fathom::testing
