// From the regular expressions of tokenizer.json to those of PCRE2.
//
// tokenizer.json is written for Oniguruma. Most of what such patterns use means the same in PCRE2
// with UTF and UCP; the rest would split text differently without any sign of it. So the pattern is
// read here: what differs and can be said exactly is rewritten, what cannot is refused.
//
//   rewritten   \s \S    PCRE2 counts U+180E as white space, Unicode (and Oniguruma) does not
//   refused     \w \b \h \v \x ^ $ . (?<..) (?i) [a&&b] [a[b]] \p{Han} {,n} and the like
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace fathom {

// An error names the construct, its offset in the pattern, and what is supported.
Result<std::string> ToPcre2Pattern(std::string_view pattern);

}  // namespace fathom
