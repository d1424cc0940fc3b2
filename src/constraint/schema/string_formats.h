// The formats of strings (docs/spec/constrained.md 2.2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "constraint/schema/string_predicates.h"

namespace fathom::constraint {

struct StringFormat {
  std::string regex{};         // matches the whole text (regex.h)
  std::uint32_t maximum = 0;   // code points; 0: no limit
  WriteTexts write = nullptr;  // if set, writes the texts instead of the regular expression
};

// RFC 3339 date-time, date, time (leap seconds with offsets of whole and half hours) and duration;
// RFC 5321 email; RFC 1123 hostname, without punycode; ipv4, ipv6, uuid; RFC 3986 uri and
// uri-reference, RFC 3987 iri and iri-reference; RFC 6570 uri-template; RFC 6901 json-pointer and
// relative-json-pointer; byte (base64); regex. nullptr: an annotation.
// The formats are made at the first call.
const StringFormat* FindStringFormat(std::string_view name);

// --- Texts that no regular expression matches, spelled as the writer spells texts ---

// JSON documents with at most 12 nested arrays and objects, with any amount of white space
// (contentMediaType application/json, where it asserts something).
ExpressionId JsonContent(TextWriter& writer);

// Regular expressions of ECMA-262 (JSON Schema 2020-12, 7.3.8) with at most 8 nested groups. Forms
// that engines read differently are left out: brackets and braces that stand for themselves, empty
// classes, ranges whose order is not known, {n,m} with n above 19.
ExpressionId RegexFormat(TextWriter& writer);

}  // namespace fathom::constraint
