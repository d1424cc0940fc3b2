// The keywords of JSON Schema by their use.
#pragma once

#include <string_view>

namespace fathom::constraint {

// Keywords that assert nothing about values.
bool IsAnnotation(std::string_view keyword);
// Keywords that assert something by themselves where their values are scalars or lists of them.
bool IsAssertion(std::string_view keyword);
// Keywords that apply schemas to the same value.
bool IsInPlaceApplicator(std::string_view keyword);
// Keywords that the reader knows.
bool IsKeyword(std::string_view keyword);

// The form in which the value of a keyword holds schemas.
enum class SubschemaKind { kNone, kOne, kList, kOneOrList, kMap };
SubschemaKind KindOfSubschemas(std::string_view keyword);

}  // namespace fathom::constraint
