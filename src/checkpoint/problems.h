// Summarizes many problems in one error: a user with a broken download needs the whole list, not
// only its first line.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace fathom::checkpoint {

// The most problems that an error message shows; others are counted.
inline constexpr std::size_t kShownProblems = 20;

// Appends a formatted problem: AddProblem(problems, "{}: expected {}", file, n).
template <class... Args>
void AddProblem(std::vector<Error>& problems, fmt::format_string<Args...> format, Args&&... args) {
  problems.push_back({ErrorCode::kInvalidData, fmt::format(format, std::forward<Args>(args)...)});
}

// Returns one error for all of `problems` (at least one):
//
//   2 problems with the tensors of DIR:
//     embed.weight: ...
//     norm.weight: ...
//
// `subject` names the faulty thing ("the tensors of DIR"). Shows at most `shown` lines, then "...
// and K more". The code is the common code of the problems, or kInvalidData if they differ.
Error SummarizeProblems(std::string_view subject, std::span<const Error> problems,
                        std::size_t shown = kShownProblems);

// Returns text from a file for a message: quoted, control characters escaped, cut after 200 bytes.
std::string Quoted(std::string_view text);

}  // namespace fathom::checkpoint
