// Recognizes Git LFS pointers: `git clone` without Git LFS writes them instead of large files.
#pragma once

#include <string_view>

namespace fathom {

// Returns whether the content of a file is a pointer to another one.
inline bool IsGitLfsPointer(std::string_view content) {
  return content.starts_with("version https://git-lfs.github.com/spec/");
}

// Is appended to the name of the file in an error.
inline constexpr std::string_view kGitLfsPointer =
    "a Git LFS pointer, not the file itself; git lfs pull in its directory fetches it";

}  // namespace fathom
