#include "constraint/schema/json_content.h"

#include <string_view>
#include <vector>

namespace fathom {
namespace {

constexpr int kMaxNestedContent = 12;

class JsonContentWriter {
 public:
  explicit JsonContentWriter(TextWriter& writer) : writer_(writer), pool_(writer.pool()) {
    blank_ = Any(OneOf(" \t\n\r"));
  }

  ExpressionId Document() {
    const ExpressionId string = String();
    ExpressionId value = Choice({string, Number(), Word("true"), Word("false"), Word("null")});
    const ExpressionId scalar = value;
    for (int i = 0; i < kMaxNestedContent; ++i) {
      const ExpressionId item = Sequence({blank_, value, blank_});
      const ExpressionId member = Sequence({blank_, string, blank_, Word(":"), item});
      value = Choice({scalar, Sequence({Word("["), List(item), Word("]")}),
                      Sequence({Word("{"), List(member), Word("}")})});
    }
    return Sequence({blank_, value, blank_});
  }

 private:
  ExpressionId Sequence(const std::vector<ExpressionId>& parts) { return pool_.Concat(parts); }
  ExpressionId Choice(const std::vector<ExpressionId>& parts) { return pool_.Or(parts); }
  ExpressionId Any(ExpressionId part) { return pool_.Repeat(part, 0, kNoMaximum); }
  ExpressionId OneOf(std::string_view characters) {
    std::vector<CodePointRange> ranges;
    for (const char c : characters) {
      const auto code = static_cast<char32_t>(static_cast<unsigned char>(c));
      ranges.push_back({code, code});
    }
    return writer_.Spell(MakeCodePointSet(std::move(ranges)));
  }
  ExpressionId Word(std::string_view text) {
    std::vector<ExpressionId> parts;
    for (const char c : text) parts.push_back(OneOf({&c, 1}));
    return pool_.Concat(parts);
  }
  ExpressionId List(ExpressionId element) {
    return Choice({blank_, Sequence({element, Any(Sequence({Word(","), element}))})});
  }
  ExpressionId String() {
    const ExpressionId plain = writer_.Spell(Complement({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}));
    const ExpressionId hex = OneOf("0123456789abcdefABCDEF");
    const ExpressionId code = Sequence({Word("u"), pool_.Repeat(hex, 4, 4)});
    const ExpressionId escape = Sequence({Word("\\"), Choice({OneOf("\"\\/bfnrt"), code})});
    return Sequence({Word("\""), Any(Choice({plain, escape})), Word("\"")});
  }
  ExpressionId Number() {
    const ExpressionId digit = OneOf("0123456789");
    const ExpressionId digits = pool_.Repeat(digit, 1, kNoMaximum);
    const ExpressionId whole = Choice({Word("0"), Sequence({OneOf("123456789"), Any(digit)})});
    const ExpressionId fraction = pool_.Optional(Sequence({Word("."), digits}));
    const ExpressionId exponent =
        pool_.Optional(Sequence({OneOf("eE"), pool_.Optional(OneOf("+-")), digits}));
    return Sequence({pool_.Optional(Word("-")), whole, fraction, exponent});
  }

  TextWriter& writer_;
  ExpressionPool& pool_;
  ExpressionId blank_ = 0;
};

}  // namespace

ExpressionId JsonContent(TextWriter& writer) { return JsonContentWriter(writer).Document(); }

}  // namespace fathom
