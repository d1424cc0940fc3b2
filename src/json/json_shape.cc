#include "json/json_shape.h"

#include <algorithm>
#include <vector>

namespace fathom::json {
namespace {

struct OpenList {
  std::size_t number;  // index in JsonShape::n_items
  std::uint32_t n_commas;
  bool is_object;
  bool is_empty;
};

void Close(const OpenList& list, JsonShape* shape) {
  if (list.is_empty) {
    shape->n_items.pop_back();  // nothing began inside
    return;
  }
  const std::uint32_t n_items = list.n_commas + 1;
  shape->n_items[list.number] = n_items;
  shape->n_values += n_items;
  if (!list.is_object) return;
  shape->n_keys += n_items;
  shape->most_keys = std::max<std::uint64_t>(shape->most_keys, n_items);
}

}  // namespace

std::optional<JsonShape> ReadJsonShape(std::string_view text, int max_depth,
                                       const StopFunction& stop) {
  JsonShape shape;
  std::vector<OpenList> open;
  // Represents the text around the outermost value, so that a list is always open.
  OpenList outside = {};
  OpenList* innermost = &outside;
  const auto close = [&] {
    Close(open.back(), &shape);
    open.pop_back();
    innermost = open.empty() ? &outside : &open.back();
  };
  StopCheck check(stop);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') continue;
    if (c == ']' || c == '}') {
      if (open.empty()) break;
      close();
      continue;
    }
    innermost->is_empty = false;
    if (c == ',') {
      ++innermost->n_commas;
      if (check.IsStopped(i)) return std::nullopt;
    } else if (c == '"') {
      i = FindClosingQuote(text, i + 1);
    } else if (c == '[' || c == '{') {
      if (open.size() == static_cast<std::size_t>(std::max(max_depth, 0))) break;
      open.push_back({shape.n_items.size(), 0, c == '{', true});
      innermost = &open.back();
      shape.n_items.push_back(0);
    }
  }
  while (!open.empty()) close();
  return shape;
}

std::size_t FindClosingQuote(std::string_view text, std::size_t begin) {
  std::size_t quote = text.find('"', begin);
  while (quote != std::string_view::npos) {
    // The quote is escaped by an odd number of backslashes before it. Each backslash is counted for
    // only one quote.
    std::size_t first = quote;
    while (first > begin && text[first - 1] == '\\') --first;
    if ((quote - first) % 2 == 0) return quote;
    quote = text.find('"', quote + 1);
  }
  return text.size();
}

std::string_view FirstJsonValue(std::string_view text) {
  std::size_t depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      i = FindClosingQuote(text, i + 1);
      if (depth == 0) return text.substr(0, i + 1);
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      if (depth <= 1) return text.substr(0, depth == 0 ? i : i + 1);
      --depth;
    } else if (depth == 0 && std::string_view(", \t\r\n").find(c) != std::string_view::npos) {
      return text.substr(0, i);
    }
  }
  return text;
}

}  // namespace fathom::json
