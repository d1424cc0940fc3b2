// Options of vLLM, SGLang and llama.cpp, and ours for the same.
#pragma once

#include <string_view>

namespace fathom::cli {

struct ForeignOption {
  std::string_view theirs;
  std::string_view ours;     // empty: there is nothing like it here
  bool serve_takes = false;  // `serve` takes theirs for ours, since both have the same values
};

// nullptr if no other server that we know has such an option. `name`: with its dashes.
const ForeignOption* FindForeignOption(std::string_view name);

}  // namespace fathom::cli
