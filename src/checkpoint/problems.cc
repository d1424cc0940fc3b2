#include "checkpoint/problems.h"

#include <algorithm>

#include "base/check.h"

namespace fathom::checkpoint {

Error SummarizeProblems(std::string_view subject, std::span<const Error> problems,
                        std::size_t shown) {
  Check(!problems.empty(), "there is at least one problem to summarize");
  std::string message = fmt::format("{} problem{} with {}:", problems.size(),
                                    problems.size() == 1 ? "" : "s", subject);
  const std::size_t listed = std::min(problems.size(), shown);
  for (const Error& problem : problems.first(listed)) {
    message += "\n  ";
    message += problem.message;
  }
  if (listed < problems.size()) {
    message += fmt::format("\n  ... and {} more", problems.size() - listed);
  }
  const ErrorCode code = problems.front().code;
  const bool agree = std::all_of(problems.begin(), problems.end(),
                                 [code](const Error& problem) { return problem.code == code; });
  return {agree ? code : ErrorCode::kInvalidData, std::move(message)};
}

std::string Quoted(std::string_view text) {
  constexpr std::size_t kLongest = 200;
  std::string_view kept = text.substr(0, kLongest);
  if (kept.size() < text.size()) {
    // Also drops the first bytes of a UTF-8 character that is cut.
    while (!kept.empty() && (static_cast<unsigned char>(text[kept.size()]) & 0xC0u) == 0x80u) {
      kept.remove_suffix(1);
    }
  }
  std::string quoted = "'";
  for (const char c : kept) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted += c;
    }
  }
  quoted += kept.size() < text.size() ? "...'" : "'";
  return quoted;
}

}  // namespace fathom::checkpoint
