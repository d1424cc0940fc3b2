// URI references of $id and $ref (RFC 3986, section 5).
#pragma once

#include <string>
#include <string_view>

namespace fathom::constraint {

// The reference resolved against the base, without its fragment.
std::string ResolveUri(std::string_view base, std::string_view reference);
// The part after the first #, percent-decoded; "" if there is none.
std::string UriFragment(std::string_view reference);
std::string_view WithoutFragment(std::string_view reference);

}  // namespace fathom::constraint
