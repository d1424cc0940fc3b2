// Git LFS pointers: what `git clone` leaves in place of large files where Git LFS is missing.
#pragma once

#include <string_view>

namespace fathom {

// Whether the content of a file is a pointer to another one.
inline bool IsGitLfsPointer(std::string_view content) {
  return content.starts_with("version https://git-lfs.github.com/spec/");
}

// Follows the name of the file in an error.
inline constexpr std::string_view kGitLfsPointer =
    "a Git LFS pointer, not the file itself; git lfs pull in its directory fetches it";

}  // namespace fathom
