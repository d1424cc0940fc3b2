#include "tests/tokenizer/golden.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "tests/testing/shared_data.h"
#include "tokenizer/byte_level.h"

namespace fathom::testing {

using Json = nlohmann::json;

std::vector<TokenCase> ReadTokenCases(const std::filesystem::path& path) {
  const Json file = Json::parse(ReadFile(path), nullptr, /*allow_exceptions=*/false);
  Check(file.is_array(), "token cases: expected a JSON array");
  std::vector<TokenCase> cases;
  for (const Json& entry : file) {
    cases.push_back(
        {entry.at("t"), entry.value("pieces", std::vector<std::string>()), entry.at("ids")});
  }
  return cases;
}

Tokenizer LoadTokenizer(const std::filesystem::path& path) {
  Result<Tokenizer> tokenizer = Tokenizer::Load(path);
  Check(tokenizer.has_value(), tokenizer ? "" : tokenizer.error().message);
  return std::move(*tokenizer);
}

std::string ToUtf8(std::uint32_t code_point) {
  std::string text;
  AppendUtf8(code_point, text);
  return text;
}

std::string ToUtf8(const std::vector<std::uint32_t>& code_points) {
  std::string text;
  for (const std::uint32_t code_point : code_points) {
    text += ToUtf8(code_point);
  }
  return text;
}

std::string Repeat(std::string_view unit, std::size_t n_bytes) {
  std::string text;
  while (text.size() < n_bytes) {
    text += unit;
  }
  return text;
}

std::string SmallTokenizerJson() {
  const Json fairy =
      Json::parse(ReadFile(ProjectPath(kFairyTokenizer)), nullptr, /*allow_exceptions=*/false);
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary[ByteToSymbol(static_cast<std::uint8_t>(byte))] = byte;
  }
  vocabulary["ab"] = 256;
  vocabulary["abc"] = 257;
  vocabulary[ByteToSymbol(' ') + ByteToSymbol(' ')] = 258;
  const Json file = {
      {"added_tokens", {{{"id", 300}, {"content", "<end>"}, {"special", true}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer", fairy.at("pre_tokenizer")},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"},
        {"vocab", vocabulary},
        {"merges", {"a b", "ab c", ByteToSymbol(' ') + " " + ByteToSymbol(' ')}}}},
  };
  return file.dump();
}

}  // namespace fathom::testing
