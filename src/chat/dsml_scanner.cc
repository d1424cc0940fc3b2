#include "chat/dsml_scanner.h"

#include <string>

#include "chat/literals.h"

namespace fathom::chat {
namespace {

enum class Match { kYes, kNo, kIncomplete };

constexpr std::string_view kWideBar = "｜";

bool IsWordByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == ':';
}

// Reads a tag from left to right. Each function advances past its match; it returns kIncomplete if
// the text ends in the middle of a possible match.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  Match Literal(std::string_view literal) {
    const std::string_view rest = text_.substr(position_);
    if (rest.starts_with(literal)) {
      position_ += literal.size();
      return Match::kYes;
    }
    return literal.starts_with(rest) ? Match::kIncomplete : Match::kNo;
  }

  // Matches up to two bars of either kind.
  Match Bars() {
    for (int i = 0; i < 2; ++i) {
      const Match wide = Literal(kWideBar);
      if (wide == Match::kYes) continue;
      if (wide == Match::kIncomplete) return wide;
      if (Literal("|") != Match::kYes) break;
    }
    return Match::kYes;
  }

  // Matches any number of blanks, at least `least`.
  Match Blanks(std::size_t least) {
    const std::size_t begin = position_;
    while (position_ < text_.size() &&
           (text_[position_] == ' ' || text_[position_] == '\t' || text_[position_] == '\n')) {
      ++position_;
    }
    if (position_ == text_.size()) return Match::kIncomplete;
    return position_ - begin >= least ? Match::kYes : Match::kNo;
  }

  // Returns the longest run of bytes that a word may have.
  std::string_view Word() {
    const std::size_t begin = position_;
    while (position_ < text_.size() && IsWordByte(text_[position_])) ++position_;
    return text_.substr(begin, position_ - begin);
  }

  bool AtEnd() const { return position_ == text_.size(); }
  std::size_t position() const { return position_; }
  void set_position(std::size_t position) { position_ = position; }
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
  std::size_t position_ = 0;
};

// The part of an attribute before its value: the word, the equals sign and the quote.
struct AttributeStart {
  std::string_view word;
  char quote = '"';
};

Match ReadAttributeStart(Cursor* cursor, AttributeStart* start) {
  start->word = cursor->Word();
  if (cursor->AtEnd()) return Match::kIncomplete;
  if (start->word.empty()) return Match::kNo;
  Match match = cursor->Blanks(0);
  if (match == Match::kYes) match = cursor->Literal("=");
  if (match == Match::kYes) match = cursor->Blanks(0);
  if (match != Match::kYes) return match;
  start->quote = cursor->Literal("'") == Match::kYes ? '\'' : '"';
  return start->quote == '\'' ? Match::kYes : cursor->Literal("\"");
}

// Sets the flag from the value of the attribute `string`; any value but true and false leaves it
// unset.
void SetIsString(std::string_view value, std::optional<bool>* is_string) {
  if (value == "true" || value == "True") *is_string = true;
  if (value == "false" || value == "False") *is_string = false;
}

// Reads the rest of an opener after its name: other attributes and the bracket.
Match ReadTagEnd(Cursor* cursor, std::optional<bool>* is_string) {
  while (true) {
    const std::size_t begin = cursor->position();
    if (cursor->Blanks(0) == Match::kIncomplete) return Match::kIncomplete;
    if (cursor->Literal(">") == Match::kYes) return Match::kYes;
    if (cursor->position() == begin) return Match::kNo;
    AttributeStart attribute;
    const Match match = ReadAttributeStart(cursor, &attribute);
    if (match != Match::kYes) return match;
    const std::size_t value = cursor->position();
    const std::string ends = {attribute.quote, '<', '>', '\n'};
    const std::size_t quote = cursor->text().find_first_of(ends, value);
    if (quote == std::string_view::npos) return Match::kIncomplete;
    if (cursor->text()[quote] != attribute.quote) return Match::kNo;
    if (attribute.word == "string") {
      SetIsString(cursor->text().substr(value, quote - value), is_string);
    }
    cursor->set_position(quote + 1);
  }
}

// Reads ` name="..."`, then the other attributes. There is no escaping: the name ends at the first
// quote after which the tag ends, or an attribute begins that leads to the end of the tag.
Match ReadAttributes(Cursor* cursor, Tag* tag) {
  Match match = cursor->Blanks(1);
  AttributeStart start;
  if (match == Match::kYes) match = ReadAttributeStart(cursor, &start);
  if (match == Match::kYes && start.word != "name") match = Match::kNo;
  if (match != Match::kYes) return match;
  const std::string ends = {start.quote, '<', '>', '\n'};
  const std::size_t n_ends = tag->kind == TagKind::kInvokeOpen ? ends.size() : 1;
  const std::size_t begin = cursor->position();
  for (std::size_t quote = begin;; ++quote) {
    quote = cursor->text().find_first_of(std::string_view(ends).substr(0, n_ends), quote);
    if (quote == std::string_view::npos) return Match::kIncomplete;
    if (cursor->text()[quote] != start.quote) return Match::kNo;
    cursor->set_position(quote + 1);
    tag->is_string.reset();
    match = ReadTagEnd(cursor, &tag->is_string);
    if (match == Match::kNo) continue;
    tag->name = cursor->text().substr(begin, quote - begin);
    return match;
  }
}

struct TagName {
  std::string_view name;
  TagKind open;
  TagKind close;
};
constexpr TagName kTagNames[] = {
    {"tool_calls", TagKind::kBlockOpen, TagKind::kBlockClose},
    {"function_calls", TagKind::kBlockOpen, TagKind::kBlockClose},
    {"calls", TagKind::kBlockOpen, TagKind::kBlockClose},
    {"invoke", TagKind::kInvokeOpen, TagKind::kInvokeClose},
    {"parameter", TagKind::kParameterOpen, TagKind::kParameterClose},
};

// Reads the tag after its name: only blanks for closers and blocks, otherwise the attributes.
Match ReadRest(Cursor* cursor, Tag* tag) {
  if (tag->kind != TagKind::kInvokeOpen && tag->kind != TagKind::kParameterOpen) {
    const Match blanks = cursor->Blanks(0);
    return blanks == Match::kYes ? cursor->Literal(">") : blanks;
  }
  const Match match = ReadAttributes(cursor, tag);
  if (match == Match::kYes && tag->kind == TagKind::kInvokeOpen && tag->name.empty()) {
    return Match::kNo;
  }
  return match;
}

// Reads a DSML or plain tag from the bracket to the name.
Match ReadMarkup(Cursor* cursor, Tag* tag) {
  if (cursor->Literal("<") != Match::kYes) return Match::kNo;
  const bool is_closer = cursor->Literal("/") == Match::kYes;
  const std::size_t begin = cursor->position();
  if (cursor->Bars() == Match::kIncomplete) return Match::kIncomplete;
  const bool has_bars = cursor->position() > begin;
  Match dsml = cursor->Literal("DSML");
  if (dsml == Match::kIncomplete) return dsml;
  tag->is_dsml = dsml == Match::kYes;
  if (tag->is_dsml) {
    if (cursor->Bars() == Match::kIncomplete) return Match::kIncomplete;
    Match blank = cursor->Literal(" ");
    if (blank == Match::kIncomplete) return blank;
  } else if (has_bars) {
    return Match::kNo;
  }
  for (const TagName& name : kTagNames) {
    if (name.name == "calls" && !tag->is_dsml) continue;
    const Match match = cursor->Literal(name.name);
    if (match == Match::kNo) continue;
    if (match == Match::kIncomplete) return match;
    tag->kind = is_closer ? name.close : name.open;
    return ReadRest(cursor, tag);
  }
  return Match::kNo;
}

TagScan FromMatch(Match match, const Cursor& cursor, Tag tag) {
  using Outcome = TagScan::Outcome;
  if (match == Match::kNo) return {Outcome::kNoTag, {}};
  if (match == Match::kIncomplete) return {Outcome::kIncomplete, {}};
  tag.bytes = cursor.position();
  return {Outcome::kTag, tag};
}

}  // namespace

TagScan ScanTag(std::string_view text) {
  const bool is_cut = text.size() > kMaxTagBytes;
  text = text.substr(0, kMaxTagBytes);
  bool is_prefix = false;
  for (const bool is_closer : {false, true}) {
    Cursor cursor(text);
    const Match match = cursor.Literal(is_closer ? kThinkCloseToken : kThinkOpenToken);
    const TagKind kind = is_closer ? TagKind::kThinkClose : TagKind::kThinkOpen;
    if (match == Match::kYes) return FromMatch(match, cursor, {.kind = kind});
    is_prefix = is_prefix || match == Match::kIncomplete;
  }
  Cursor cursor(text);
  Tag tag;
  TagScan scan = FromMatch(ReadMarkup(&cursor, &tag), cursor, tag);
  if (scan.outcome == TagScan::Outcome::kNoTag && is_prefix) {
    scan.outcome = TagScan::Outcome::kIncomplete;
  }
  if (scan.outcome == TagScan::Outcome::kIncomplete && (is_cut || text.size() == kMaxTagBytes)) {
    scan.outcome = TagScan::Outcome::kNoTag;
  }
  return scan;
}

bool BeginsWithDsmlToken(std::string_view text) {
  return text.find(kDsml) <= std::string_view("</").size() + kWideBar.size();
}

bool IsPlainTail(std::string_view text) {
  const std::size_t first = text.size() > 1 && text[1] == '/' ? 2 : 1;
  return first < text.size() && text[first] >= 'a' && text[first] <= 'z';
}

}  // namespace fathom::chat
