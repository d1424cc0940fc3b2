// Shared by the tests of the tokenizer: golden cases, the two real tokenizers, small helpers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "tokenizer/tokenizer.h"

namespace fathom::testing {

// Inside the golden data.
inline constexpr std::string_view kOfficialTokenizer =
    "data/tokenizer/tokenizer.reconstructed.json";
inline constexpr std::string_view kTokenizerVectors = "data/tokenizer/tokenizer_vectors.json";
inline constexpr std::string_view kPreTokenizerCases = "data/tokenizer/pretokenizer_fuzz.json";
// Inside the project.
inline constexpr std::string_view kFairyTokenizer = "models/fairy/tokenizer.json";

struct TokenCase {
  std::string text;
  std::vector<std::string> pieces;  // only of the pre-tokenizer cases
  std::vector<Token> tokens;
};

std::vector<TokenCase> ReadTokenCases(const std::filesystem::path& path);

// Fails the calling test if it cannot be loaded.
Tokenizer LoadTokenizer(const std::filesystem::path& path);

std::string ToUtf8(std::uint32_t code_point);
// Joins a list of code points; surrogates and too large values become U+FFFD.
std::string ToUtf8(const std::vector<std::uint32_t>& code_points);

// n_bytes or a little more of the unit repeated.
std::string Repeat(std::string_view unit, std::size_t n_bytes);

// A well-formed tokenizer.json with the 256 bytes (id = byte), the merges "a b", "ab c" and
// "Ġ Ġ" (ids 256 to 258), the added token "<end>" (id 300, special) and the V4 pre-tokenizer.
std::string SmallTokenizerJson();

}  // namespace fathom::testing
