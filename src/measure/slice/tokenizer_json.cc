#include "measure/slice/tokenizer_json.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "chat/literals.h"
#include "json/json_value.h"
#include "json/json_writer.h"
#include "tokenizer/byte_level.h"

namespace fathom::measure {
namespace {

constexpr std::int64_t kBytes = 256;

constexpr std::array<std::string_view, 3> kFirstTokens = {kBeginOfSentence, kEndOfSentence,
                                                          "<｜▁pad▁｜>"};

// Returns the tokens after the merges, as in the published files.
std::vector<std::string_view> LastTokens() {
  std::vector<std::string_view> tokens = {
      "<｜fim▁hole｜>",     "<｜fim▁begin｜>",    "<｜fim▁end｜>",  kUserToken,
      kAssistantToken,      kThinkOpenToken,      kThinkCloseToken, kDsml,
      kLatestReminderToken, "<｜extracted_url｜>"};
  for (const TaskToken& task : kTaskTokens) {
    tokens.push_back(task.token);
  }
  return tokens;
}

// A syllable is a blank or a consonant with a vowel; a word is a syllable followed by one that
// begins with a consonant. No piece begins with a vowel or ends with a consonant, so the bytes of
// every product merge in one way only, into that product: encoding the text of a token gives the
// token.
constexpr std::string_view kConsonants = "bcdfghjklmnpqrstvwxyzBCDFGHJKLMNPQRSTVWXYZ";
constexpr std::string_view kVowels = "aeiouAEIOU";
constexpr std::size_t kSyllablesOfBlank = kVowels.size();

struct Merge {
  std::string left;
  std::string right;
};

std::vector<Merge> Syllables() {
  std::vector<Merge> syllables;
  const auto add = [&](std::uint8_t first) {
    for (const char vowel : kVowels) {
      syllables.push_back({ByteToSymbol(first), std::string(1, vowel)});
    }
  };
  add(' ');
  for (const char consonant : kConsonants) {
    add(static_cast<std::uint8_t>(consonant));
  }
  return syllables;
}

// Returns all syllables, then words, `count` in all.
std::vector<Merge> Merges(std::size_t count) {
  const std::vector<Merge> syllables = Syllables();
  std::vector<Merge> merges = syllables;
  for (std::size_t i = 0; i < syllables.size() && merges.size() < count; ++i) {
    for (std::size_t j = kSyllablesOfBlank; j < syllables.size(); ++j) {
      merges.push_back(
          {syllables[i].left + syllables[i].right, syllables[j].left + syllables[j].right});
    }
  }
  merges.resize(count);
  return merges;
}

std::int64_t AddedTokens() {
  return static_cast<std::int64_t>(kFirstTokens.size() + LastTokens().size());
}

JsonValue AddedToken(std::int64_t id, std::string_view text, bool special) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

// Returns the three patterns of the published files (docs/spec/tokenizer.md 3).
JsonValue PreTokenizer() {
  constexpr std::array<std::string_view, 3> kPatterns = {
      R"(\p{N}{1,3})", "[一-龥\u3040-ゟ゠-ヿ]+",
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
      "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
      "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"};
  JsonValue steps = JsonValue::Array();
  for (const std::string_view pattern : kPatterns) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back({{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", true},
                   {"use_regex", false}});
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

// Returns 256 symbols in the order of the published files: first the bytes that are their own
// symbol.
std::vector<std::string> ByteSymbols() {
  std::vector<std::string> symbols;
  for (std::int64_t byte = 0; byte < kBytes; ++byte) {
    symbols.push_back(ByteToSymbol(static_cast<std::uint8_t>(byte)));
  }
  // UTF-8 sorts like the characters, and the symbols of the other bytes sort last.
  std::sort(symbols.begin(), symbols.end());
  return symbols;
}

JsonValue BpeModel(std::size_t n_merges) {
  JsonValue vocabulary = JsonValue::Object();
  std::int64_t id = 0;
  // operator[] searches for a key before it adds one: with a hundred thousand keys this takes
  // minutes. All keys differ by construction.
  const auto add = [&](std::string_view text) { vocabulary.Add(text, id++); };
  for (const std::string_view token : kFirstTokens) {
    add(token);
  }
  for (const std::string& symbol : ByteSymbols()) {
    add(symbol);
  }
  JsonValue merges = JsonValue::Array();
  for (const Merge& merge : Merges(n_merges)) {
    add(merge.left + merge.right);
    merges.push_back(merge.left + " " + merge.right);
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

}  // namespace

std::int64_t SmallestVocabulary() { return kBytes + AddedTokens(); }

std::int64_t LargestVocabulary() {
  const auto n_syllables = static_cast<std::int64_t>(Syllables().size());
  const auto n_of_blank = static_cast<std::int64_t>(kSyllablesOfBlank);
  return SmallestVocabulary() + n_syllables + n_syllables * (n_syllables - n_of_blank);
}

std::string TokenizerJson(std::int64_t vocab_size) {
  Check(vocab_size >= SmallestVocabulary() && vocab_size <= LargestVocabulary(),
        "the vocabulary has a size that can be made");
  JsonValue added = JsonValue::Array();
  std::int64_t id = 0;
  for (const std::string_view token : kFirstTokens) {
    added.push_back(AddedToken(id++, token, true));
  }
  const std::vector<std::string_view> last = LastTokens();
  id = vocab_size - static_cast<std::int64_t>(last.size());
  for (const std::string_view token : last) {
    added.push_back(AddedToken(id++, token, false));
  }
  const auto byte_level = [](bool trim_offsets) -> JsonValue {
    return {{"type", "ByteLevel"},
            {"add_prefix_space", true},
            {"trim_offsets", trim_offsets},
            {"use_regex", true}};
  };
  const JsonValue json = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", std::move(added)},
      {"normalizer", {{"type", "Sequence"}, {"normalizers", JsonValue::Array()}}},
      {"pre_tokenizer", PreTokenizer()},
      {"post_processor", byte_level(false)},
      {"decoder", byte_level(true)},
      {"model", BpeModel(static_cast<std::size_t>(vocab_size - SmallestVocabulary()))},
  };
  return WriteJson(json, 1) + "\n";
}

std::string TokenizerConfigJson(std::int64_t max_positions) {
  const JsonValue json = {{"add_bos_token", false},
                          {"add_eos_token", false},
                          {"bos_token", kBeginOfSentence},
                          {"eos_token", kEndOfSentence},
                          {"pad_token", kEndOfSentence},
                          {"clean_up_tokenization_spaces", false},
                          {"model_max_length", max_positions},
                          {"tokenizer_class", "PreTrainedTokenizerFast"}};
  return WriteJson(json, 2) + "\n";
}

std::string GenerationConfigJson() {
  const JsonValue json = {{"_from_model_config", true}, {"bos_token_id", 0},  {"eos_token_id", 1},
                          {"do_sample", true},          {"temperature", 1.0}, {"top_p", 1.0}};
  return WriteJson(json, 2) + "\n";
}

}  // namespace fathom::measure
