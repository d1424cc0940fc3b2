#include "constraint/schema/uri_reference.h"

#include "base/parse_text.h"

namespace fathom::constraint {
namespace {

// The components of a reference (RFC 3986, appendix B), without the fragment.
struct UriParts {
  std::string_view scheme{};     // with its colon, or ""
  std::string_view authority{};  // with its slashes, or ""
  std::string_view path{};
  std::string_view query{};  // with its question mark, or ""
};

UriParts SplitUri(std::string_view text) {
  UriParts parts;
  const std::size_t colon = text.find_first_of(":/?");
  if (colon != std::string_view::npos && colon > 0 && text[colon] == ':') {
    parts.scheme = text.substr(0, colon + 1);
    text.remove_prefix(colon + 1);
  }
  if (text.substr(0, 2) == "//") {
    const std::size_t end = std::min(text.find_first_of("/?", 2), text.size());
    parts.authority = text.substr(0, end);
    text.remove_prefix(end);
  }
  const std::size_t question = std::min(text.find('?'), text.size());
  parts.path = text.substr(0, question);
  parts.query = text.substr(question);
  return parts;
}

// Removes the segments . and .. of a path (RFC 3986, section 5.2.4).
std::string RemoveDotSegments(std::string_view path) {
  std::string output;
  while (!path.empty()) {
    if (path.substr(0, 3) == "../") {
      path.remove_prefix(3);
    } else if (path.substr(0, 2) == "./" || path.substr(0, 3) == "/./") {
      path.remove_prefix(2);
    } else if (path == "/.") {
      path = "/";
    } else if (path.substr(0, 4) == "/../" || path == "/..") {
      path = path == "/.." ? "/" : path.substr(3);
      output.erase(std::min(output.rfind('/'), output.size()));
    } else if (path == "." || path == "..") {
      path = {};
    } else {
      const std::size_t end = std::min(path.find('/', 1), path.size());
      output += path.substr(0, end);
      path.remove_prefix(end);
    }
  }
  return output;
}

}  // namespace

std::string_view WithoutFragment(std::string_view reference) {
  return reference.substr(0, reference.find('#'));
}

std::string UriFragment(std::string_view reference) {
  const std::size_t hash = reference.find('#');
  if (hash == std::string_view::npos) return "";
  const std::string_view encoded = reference.substr(hash + 1);
  std::string decoded;
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    if (encoded[i] == '%' && i + 2 < encoded.size() && HexDigit(encoded[i + 1]) >= 0 &&
        HexDigit(encoded[i + 2]) >= 0) {
      decoded += static_cast<char>(HexDigit(encoded[i + 1]) * 16 + HexDigit(encoded[i + 2]));
      i += 2;
    } else {
      decoded += encoded[i];
    }
  }
  return decoded;
}

std::string ResolveUri(std::string_view base_text, std::string_view reference) {
  const UriParts base = SplitUri(WithoutFragment(base_text));
  UriParts parts = SplitUri(WithoutFragment(reference));
  std::string path;
  if (!parts.scheme.empty() || !parts.authority.empty()) {
    path = RemoveDotSegments(parts.path);
  } else if (parts.path.empty()) {
    path = base.path;
    if (parts.query.empty()) parts.query = base.query;
  } else if (parts.path[0] == '/') {
    path = RemoveDotSegments(parts.path);
  } else {
    const std::size_t slash = base.path.rfind('/');
    std::string merged(slash == std::string_view::npos ? "" : base.path.substr(0, slash + 1));
    if (merged.empty() && !base.authority.empty()) merged = "/";
    path = RemoveDotSegments(merged + std::string(parts.path));
  }
  std::string text(parts.scheme.empty() ? base.scheme : parts.scheme);
  text += parts.scheme.empty() && parts.authority.empty() ? base.authority : parts.authority;
  return text + path + std::string(parts.query);
}

}  // namespace fathom::constraint
