// The format "regex" (JSON Schema 2020-12, 7.3.8): regular expressions of ECMA-262.
#pragma once

#include <string>

namespace fathom {

// A regular expression (regex.h) that matches texts which are valid regular expressions, with at
// most 8 nested groups. It leaves out what engines take differently: brackets and braces that stand
// for themselves, empty classes, ranges whose order it does not know, {n,m} with n above 19.
std::string RegexFormat();

}  // namespace fathom
