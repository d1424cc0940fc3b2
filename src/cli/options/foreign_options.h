// Maps options of vLLM, SGLang and llama.cpp to ours.
#pragma once

#include <string_view>

namespace fathom::cli {

struct ForeignOption {
  std::string_view theirs;
  std::string_view ours;     // empty: there is no such option here
  bool serve_takes = false;  // `serve` accepts their name: the values are equal
};

// Returns nullptr if no other known server has such an option. `name`: with its dashes.
const ForeignOption* FindForeignOption(std::string_view name);

}  // namespace fathom::cli
