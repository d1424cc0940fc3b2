// Recipes: settings of client programs for a server (serve --recipes).
#pragma once

#include <cstdint>
#include <string>

namespace fathom::cli {

// The facts about the server that clients need.
struct RecipeFacts {
  std::string url;    // "http://127.0.0.1:8000"
  std::string model;  // a served name
  std::int64_t n_context = 0;
  bool has_keys = false;  // clients need a key; the recipes contain KEY instead of the key
};

// Returns the recipes, each with a heading line "# PROGRAM".
std::string Recipes(const RecipeFacts& facts);

}  // namespace fathom::cli
