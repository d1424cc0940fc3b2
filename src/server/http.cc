#include "server/http.h"

#include <algorithm>
#include <cctype>

namespace fathom {
namespace {

char Lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool SameName(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return Lower(x) == Lower(y); });
}

}  // namespace

std::string_view HttpRequest::Field(std::string_view name) const {
  for (const auto& [key, value] : fields) {
    if (SameName(key, name)) return value;
  }
  return "";
}

}  // namespace fathom
