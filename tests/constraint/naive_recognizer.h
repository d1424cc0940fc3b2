// NaiveRecognizer: decides whether a text matches a grammar by trying everything, as an oracle for
// small texts. It knows expressions only by their derivatives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "constraint/grammar/grammar.h"

namespace fathom::testing {

// A part of a text: a byte, or a token that stands for no bytes.
struct TextSymbol {
  bool is_token = false;
  std::uint32_t value = 0;
  friend auto operator<=>(const TextSymbol&, const TextSymbol&) = default;
};

// The bytes of a text; each occurrence of `token_text`, unless that is empty, becomes `token`.
inline std::vector<TextSymbol> TextSymbols(std::string_view text, std::string_view token_text = {},
                                           std::uint32_t token = 0) {
  std::vector<TextSymbol> symbols;
  for (std::size_t i = 0; i < text.size();) {
    if (!token_text.empty() && text.substr(i).starts_with(token_text)) {
      symbols.push_back({true, token});
      i += token_text.size();
    } else {
      symbols.push_back({false, static_cast<std::uint8_t>(text[i++])});
    }
  }
  return symbols;
}

// The table of where a rule that begins at a place may end grows until nothing is new, so that
// recursion to the left and cycles end too. Call Accepts for texts of hundreds of bytes at most.
class NaiveRecognizer {
 public:
  // `grammar` must outlive the recogniser; its pool gets derivatives.
  explicit NaiveRecognizer(Grammar& grammar) : grammar_(grammar) {}

  bool Accepts(std::span<const TextSymbol> text) {
    text_ = text;
    ends_.clear();
    bool accepts = false;
    do {
      changed_ = false;
      accepts = Ends(grammar_.start, 0, nullptr).contains(text.size());
      for (std::size_t i = 0; i < calls_.size(); ++i) {
        const auto [rule, begin] = calls_[i];
        const ExpressionId body = grammar_.Body(rule);
        const std::optional<CodePointCount>& count = grammar_.rules[rule].count;
        for (const std::size_t end : Ends(body, begin, count ? &*count : nullptr)) {
          changed_ = ends_[{rule, begin}].insert(end).second || changed_;
        }
      }
    } while (changed_);
    calls_.clear();
    return accepts;
  }
  bool Accepts(std::string_view text) { return Accepts(TextSymbols(text)); }

 private:
  // A place: the rest of the body, and the memory since the entry.
  using Marks = std::set<std::uint32_t>;
  using Texts = std::set<std::vector<TextSymbol>>;
  using Config = std::tuple<std::size_t, ExpressionId, Marks, Texts, std::uint32_t>;

  // Where the body may end if it begins at `begin`.
  std::set<std::size_t> Ends(ExpressionId body, std::size_t begin, const CodePointCount* count) {
    std::set<std::size_t> ends;
    std::set<Config> known;
    std::vector<Config> open;
    const auto add = [&](Config config) {
      if (std::get<1>(config) == grammar_.pool.Nothing()) return;
      if (known.insert(config).second) open.push_back(std::move(config));
    };
    add({begin, body, {}, {}, 0});
    while (!open.empty()) {
      const Config config = std::move(open.back());
      open.pop_back();
      const auto& [place, rest, marks, texts, n_code_points] = config;
      const bool may_end = grammar_.pool.IsNullable(rest);
      if (may_end && (count == nullptr ||
                      (n_code_points >= count->minimum && n_code_points <= count->maximum))) {
        ends.insert(place);
      }
      if (place < text_.size() && !text_[place].is_token) {
        const auto byte = static_cast<std::uint8_t>(text_[place].value);
        const std::uint32_t n = n_code_points + (count != nullptr && may_end ? 1 : 0);
        add({place + 1, grammar_.pool.DeriveByte(rest, byte), marks, texts, n});
      }
      for (const Letter letter : grammar_.pool.FirstLetters(rest)) Step(config, letter, add);
    }
    return ends;
  }

  template <class Add>
  void Step(const Config& config, Letter letter, const Add& add) {
    const auto& [place, rest, marks, texts, n] = config;
    const ExpressionId next = grammar_.pool.DeriveLetter(rest, letter);
    const bool at_token = place < text_.size() && text_[place].is_token;
    switch (letter.kind) {
      case LetterKind::kToken:
        if (at_token && text_[place].value == letter.value) add({place + 1, next, marks, texts, n});
        return;
      case LetterKind::kOtherToken:
        if (at_token && text_[place].value != letter.value) add({place + 1, next, marks, texts, n});
        return;
      case LetterKind::kMark: {
        Marks more = marks;
        if (more.insert(letter.value).second) add({place, next, std::move(more), texts, n});
        return;
      }
      case LetterKind::kNeed: {
        bool has_all = true;
        for (const std::uint32_t mark : grammar_.needs[letter.value]) {
          has_all = has_all && marks.contains(mark);
        }
        if (has_all) add({place, next, marks, texts, n});
        return;
      }
      case LetterKind::kCall:
        for (const std::size_t end : Called(letter.value, place)) {
          add({end, next, marks, texts, n});
        }
        return;
      case LetterKind::kUniqueCall:
        for (const std::size_t end : Called(letter.value, place)) {
          Texts more = texts;
          const auto text = text_.subspan(place, end - place);
          if (!more.insert({text.begin(), text.end()}).second) continue;
          add({end, next, marks, std::move(more), n});
        }
        return;
      case LetterKind::kAscendingCall:
        for (const std::size_t end : Called(letter.value, place)) {
          Texts more = texts;
          const auto text = text_.subspan(place, end - place);
          const std::vector<TextSymbol> symbols(text.begin(), text.end());
          if (!texts.empty() && symbols <= *texts.rbegin()) continue;
          more.insert(symbols);
          add({end, next, marks, std::move(more), n});
        }
        return;
    }
  }

  std::set<std::size_t> Called(RuleId rule, std::size_t begin) {
    const auto [place, is_new] = ends_.try_emplace({rule, begin});
    if (is_new) {
      calls_.emplace_back(rule, begin);
      changed_ = true;
    }
    return place->second;
  }

  Grammar& grammar_;
  std::span<const TextSymbol> text_{};
  std::map<std::pair<RuleId, std::size_t>, std::set<std::size_t>> ends_{};
  std::vector<std::pair<RuleId, std::size_t>> calls_{};
  bool changed_ = false;
};

}  // namespace fathom::testing
