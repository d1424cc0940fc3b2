#include "tokenizer/bpe.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>
#include <utility>

#include "tests/testing/shared_data.h"
#include "tests/tokenizer/golden.h"
#include "tokenizer/byte_level.h"

namespace fathom::tokenizer {
namespace {

// The parts of a Tokenizer, so that each way of merging can be asked.
struct Parts {
  TokenizerFile file;
  Vocabulary vocabulary;
  BpeModel model;
};

Parts MakeParts(TokenizerFile file) {
  Result<Vocabulary> vocabulary = Vocabulary::Build(file);
  EXPECT_TRUE(vocabulary) << (vocabulary ? "" : vocabulary.error().message);
  Result<BpeModel> model = ResolveMerges(file);
  EXPECT_TRUE(model) << (model ? "" : model.error().message);
  return {std::move(file), std::move(*vocabulary), std::move(*model)};
}

enum class Way { kEncode, kScan, kHeap };

std::vector<Token> EncodeWith(const BytePairEncoder& encoder, Way way, std::string_view piece,
                              BpeScratch& scratch) {
  std::vector<Token> tokens;
  switch (way) {
    case Way::kEncode:
      encoder.Encode(piece, scratch, tokens);
      break;
    case Way::kScan:
      encoder.EncodeByScan(piece, scratch, tokens);
      break;
    case Way::kHeap:
      encoder.EncodeByHeap(piece, scratch, tokens);
      break;
  }
  return tokens;
}

TEST(Bpe, EveryWayGivesTheGoldenTokens) {
  const auto tokenizer_path = testing::SharedData(testing::kOfficialTokenizer);
  const auto cases_path = testing::SharedData(testing::kPreTokenizerCases);
  if (!tokenizer_path || !cases_path) GTEST_SKIP() << testing::kNoSharedData;
  auto file = ParseTokenizerFile(testing::ReadFile(*tokenizer_path), "tokenizer.json");
  ASSERT_TRUE(file);
  const Parts parts = MakeParts(std::move(*file));
  const BytePairEncoder encoder(parts.vocabulary, parts.model);
  const std::vector<testing::TokenCase> cases = testing::ReadTokenCases(*cases_path);
  EXPECT_EQ(cases.size(), 3000u);
  BpeScratch scratch;
  for (const Way way : {Way::kEncode, Way::kScan, Way::kHeap}) {
    for (const testing::TokenCase& golden : cases) {
      std::vector<Token> tokens;
      for (const std::string& piece : golden.pieces) {
        const std::vector<Token> part = EncodeWith(encoder, way, piece, scratch);
        tokens.insert(tokens.end(), part.begin(), part.end());
      }
      EXPECT_EQ(tokens, golden.tokens) << golden.text << " way " << static_cast<int>(way);
    }
  }
}

// docs/spec/tokenizer.md 2: every base token encodes to itself, here by both ways of merging.
TEST(Bpe, EveryOfficialTokenEncodesToItself) {
  const auto tokenizer_path = testing::SharedData(testing::kOfficialTokenizer);
  if (!tokenizer_path) GTEST_SKIP() << testing::kNoSharedData;
  auto file = ParseTokenizerFile(testing::ReadFile(*tokenizer_path), "tokenizer.json");
  ASSERT_TRUE(file);
  const Parts parts = MakeParts(std::move(*file));
  const BytePairEncoder encoder(parts.vocabulary, parts.model);
  EXPECT_EQ(parts.model.tokens.size(), 127997u);
  BpeScratch scratch;
  for (const Token token : parts.model.tokens) {
    for (const Way way : {Way::kScan, Way::kHeap}) {
      ASSERT_EQ(EncodeWith(encoder, way, parts.vocabulary.Bytes(token), scratch),
                std::vector<Token>{token});
    }
  }
}

// A model whose symbols are the 256 bytes (id = byte) and the products of random merges.
TokenizerFile RandomModel(const std::vector<std::pair<std::uint8_t, std::uint8_t>>& choices) {
  TokenizerFile file;
  std::vector<std::string> known;
  std::set<std::string> names;
  std::set<std::pair<std::string, std::string>> pairs;
  for (int byte = 0; byte < 256; ++byte) {
    file.vocabulary.push_back({ByteToSymbol(static_cast<std::uint8_t>(byte)), byte});
  }
  for (const char* symbol : {"a", "b", "c"}) {
    known.push_back(symbol);
    names.insert(symbol);
  }
  for (const auto& [left_choice, right_choice] : choices) {
    const std::string left = known[left_choice % known.size()];
    const std::string right = known[right_choice % known.size()];
    const std::string product = left + right;
    if (product.size() > 12 || !pairs.emplace(left, right).second) {
      continue;
    }
    file.merges.push_back({product, left.size()});
    if (names.insert(product).second) {  // two merges may give the same token
      file.vocabulary.push_back({product, static_cast<Token>(file.vocabulary.size())});
      known.push_back(product);
    }
  }
  return file;
}

// The definition, word for word.
std::vector<Token> MergeByDefinition(const BpeModel& model, std::string_view piece) {
  std::vector<Token> tokens;
  for (const char byte : piece) {
    tokens.push_back(model.byte_tokens[static_cast<std::uint8_t>(byte)]);
  }
  for (bool merged = true; merged;) {
    merged = false;
    for (const Merge& merge : model.merges) {
      for (std::size_t i = 0; i + 1 < tokens.size() && !merged; ++i) {
        if (tokens[i] == merge.left && tokens[i + 1] == merge.right) {
          tokens[i] = merge.product;
          tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1);
          merged = true;
        }
      }
      if (merged) {
        break;
      }
    }
  }
  return tokens;
}

TEST(Bpe, RandomMergesFollowTheDefinition) {
  EXPECT_TRUE(
      rc::check("merging by table, scan and heap equals the definition",
                [](const std::vector<std::pair<std::uint8_t, std::uint8_t>>& choices) {
                  const Parts parts = MakeParts(RandomModel(choices));
                  const BytePairEncoder encoder(parts.vocabulary, parts.model);
                  BpeScratch scratch;
                  for (int repeat = 0; repeat < 20; ++repeat) {
                    const auto piece =
                        *rc::gen::container<std::string>(rc::gen::elementOf(std::string("abc")));
                    const std::vector<Token> expected = MergeByDefinition(parts.model, piece);
                    if (!piece.empty()) {
                      RC_ASSERT(EncodeWith(encoder, Way::kEncode, piece, scratch) == expected);
                    }
                    RC_ASSERT(EncodeWith(encoder, Way::kScan, piece, scratch) == expected);
                    RC_ASSERT(EncodeWith(encoder, Way::kHeap, piece, scratch) == expected);
                  }
                }));
}

// "abc" is in the vocabulary, but merging can never reach it: "b c" has the lower rank and there is
// no merge of "a" with "bc". Only ignore_merges makes it one token.
TEST(Bpe, WholePieceShortcutIsTakenOnlyWhereMergingAgrees) {
  TokenizerFile file = RandomModel({});
  file.vocabulary.push_back({"bc", 256});
  file.vocabulary.push_back({"ab", 257});
  file.vocabulary.push_back({"abc", 258});
  file.merges = {{"bc", 1}, {"ab", 1}, {"abc", 2}};
  for (const bool ignore_merges : {false, true}) {
    file.ignore_merges = ignore_merges;
    const Parts parts = MakeParts(file);
    const BytePairEncoder encoder(parts.vocabulary, parts.model);
    BpeScratch scratch;
    EXPECT_EQ(EncodeWith(encoder, Way::kEncode, "ab", scratch), std::vector<Token>{257});
    EXPECT_EQ(EncodeWith(encoder, Way::kEncode, "abc", scratch),
              ignore_merges ? std::vector<Token>{258} : (std::vector<Token>{'a', 256}));
  }
}

TEST(Bpe, LongPiecesAgreeByScanAndByHeap) {
  auto file = ParseTokenizerFile(testing::ReadFile(testing::ProjectPath(testing::kFairyTokenizer)),
                                 "tokenizer.json");
  ASSERT_TRUE(file);
  const Parts parts = MakeParts(std::move(*file));
  const BytePairEncoder encoder(parts.vocabulary, parts.model);
  BpeScratch scratch;
  std::uint32_t state = 1;
  for (std::size_t n_bytes : {1, 2, 63, 64, 65, 66, 127, 1000, 4096}) {
    std::string piece;
    while (piece.size() < n_bytes) {
      state = state * 1664525u + 1013904223u;
      piece += "etaoin shrdlu"[(state >> 24) % 13];
    }
    const std::vector<Token> expected = EncodeWith(encoder, Way::kScan, piece, scratch);
    EXPECT_EQ(EncodeWith(encoder, Way::kHeap, piece, scratch), expected) << n_bytes;
    EXPECT_EQ(EncodeWith(encoder, Way::kEncode, piece, scratch), expected) << n_bytes;
  }
}

}  // namespace
}  // namespace fathom::tokenizer
