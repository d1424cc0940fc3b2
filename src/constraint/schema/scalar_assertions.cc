// The keywords that assert something of types, numbers and strings.
#include <fmt/format.h>

#include <algorithm>

#include "constraint/schema/divisors.h"
#include "constraint/schema/schema_reader.h"
#include "constraint/schema/string_formats.h"

namespace fathom::constraint {
namespace {

// Adds what the type contains; false for unknown names.
bool AddType(std::string_view type, ValueSet& values) {
  if (type == "null") {
    values.null = true;
  } else if (type == "boolean") {
    values.true_value = values.false_value = true;
  } else if (type == "number") {
    values.numbers = {{}};
  } else if (type == "integer") {
    if (values.numbers.empty()) values.numbers = {{.kind = NumberShape::Kind::kInteger}};
  } else if (type == "string") {
    values.strings = {{}};
  } else if (type == "array") {
    values.arrays = {{}};
  } else if (type == "object") {
    values.objects = {{}};
  } else {
    return false;
  }
  return true;
}

}  // namespace

ValueSet SchemaReader::ReadAssertions(PlaceId place) {
  ValueSet values = ValueSet::All();
  ReadTypes(place, values);
  ReadNumbers(place, values);
  ReadStrings(place, values);
  ReadFormat(place, values);
  ReadContent(place, values);
  ReadArrays(place, values);
  ReadObjects(place, values);
  ReadEnum(place, values);
  return values;
}

void SchemaReader::ReadTypes(PlaceId place, ValueSet& values) {
  const JsonValue* type = document_.value(place).Find("type");
  if (type == nullptr) return;
  values = ValueSet();
  bool known = type->IsString() ? AddType(type->text(), values) : type->IsArray();
  for (const JsonValue& item : type->items()) known &= AddType(item.text(), values);
  if (!known) {
    Invalid(place, "type",
            "array, boolean, integer, null, number, object, string or a list of them");
  }
}

std::optional<Decimal> SchemaReader::ReadNumber(PlaceId place, std::string_view keyword) {
  const JsonValue* value = document_.value(place).Find(keyword);
  if (value == nullptr) return std::nullopt;
  std::optional<Decimal> number;
  if (value->kind() == JsonValue::Kind::kInteger || value->kind() == JsonValue::Kind::kFloat) {
    number = ParseDecimal(value->text());
  }
  if (!number) Invalid(place, keyword, "a number");
  return number;
}

std::optional<std::uint32_t> SchemaReader::ReadCount(PlaceId place, std::string_view keyword) {
  const std::optional<Decimal> number = ReadNumber(place, keyword);
  if (!number) return std::nullopt;
  if (number->negative || !number->IsInteger()) {
    Invalid(place, keyword, "a whole number of at least 0");
    return std::nullopt;
  }
  constexpr int kMaxDigits = 9;
  const DecimalDigits digits = ToDigits(*number, kMaxDigits);
  if (digits.overflows) return kNoMaximum - 1;
  return static_cast<std::uint32_t>(std::stoul(digits.whole));
}

void SchemaReader::ReadBounds(PlaceId place, NumberShape& shape) {
  const JsonValue& schema = document_.value(place);
  const auto read_bound = [&](std::string_view keyword, bool is_low) {
    std::optional<Decimal> value = ReadNumber(place, keyword);
    if (value && value->point > kMaxNumberDigits && value->negative != is_low) {
      report_.Unsupported(document_.Pointer(place), keyword, kWritableNumbers);
      value.reset();
    }
    return value;
  };
  const auto read = [&](std::string_view inclusive, std::string_view exclusive) {
    NumberShape side;
    const bool is_low = inclusive == "minimum";
    std::optional<NumberBound>& bound = is_low ? side.low : side.high;
    if (const auto value = read_bound(inclusive, is_low)) bound = NumberBound{.value = *value};
    const JsonValue* strict = schema.Find(exclusive);
    if (strict != nullptr && strict->kind() == JsonValue::Kind::kBool) {  // draft 4
      if (bound) bound->exclusive = strict->boolean();
      return side;
    }
    if (const auto value = read_bound(exclusive, is_low)) {
      NumberShape other;
      (is_low ? other.low : other.high) = NumberBound{.value = *value, .exclusive = true};
      side = *Intersect(side, other);
    }
    return side;
  };
  const auto low = Intersect(shape, read("minimum", "exclusiveMinimum"));
  const auto both = low ? Intersect(*low, read("maximum", "exclusiveMaximum")) : std::nullopt;
  if (both) {
    shape = *both;
  } else {  // plainly empty: no number is 1 and 2
    shape.low = NumberBound{.value = *ParseDecimal("1")};
    shape.high = NumberBound{.value = *ParseDecimal("0")};
  }
}

void SchemaReader::ReadNumbers(PlaceId place, ValueSet& values) {
  if (values.numbers.empty()) return;
  NumberShape& shape = values.numbers[0];
  ReadBounds(place, shape);
  if (const auto divisor = ReadNumber(place, "multipleOf")) {
    if (divisor->negative || divisor->IsZero()) {
      Invalid(place, "multipleOf", "a number above 0");
    } else if (!IsSupportedDivisor(*divisor)) {
      Unsupported(place, "multipleOf",
                  fmt::format("expected a divisor with at most {} remainders", kMaxRemainders),
                  values);
    } else {
      shape.multiples = {*divisor};
    }
  }
  const bool empty = shape.low && shape.high && Compare(shape.low->value, shape.high->value) > 0;
  if (empty) values.numbers.clear();
}

void SchemaReader::ReadStrings(PlaceId place, ValueSet& values) {
  if (values.strings.empty()) return;
  StringShape& shape = values.strings[0];
  if (const auto count = ReadCount(place, "minLength")) shape.minimum = *count;
  if (const auto count = ReadCount(place, "maxLength")) shape.maximum = *count;
  if (const JsonValue* pattern = document_.value(place).Find("pattern")) {
    if (!pattern->IsString()) {
      Invalid(place, "pattern", "a regular expression");
      return;
    }
    const ConstraintResult<StringPredicate> test = tests_.Pattern(pattern->text());
    if (test) {
      shape.tests = {*test};
    } else if (test.error().code == ConstraintErrorCode::kUnsupportedSchema) {
      Unsupported(place, "pattern", test.error().message, values);
    } else {
      report_.Fail(test.error().code, document_.Pointer(place), "pattern", test.error().message);
    }
  }
  if (shape.minimum > shape.maximum) values.strings.clear();
}

// Draft 7 leaves it open whether these keywords assert something; later drafts say that they do
// not.
void SchemaReader::ReadContent(PlaceId place, ValueSet& values) {
  if (values.strings.empty() || document_.IsNewDraft(place)) return;
  const JsonValue& schema = document_.value(place);
  const bool is_encoded = schema.Find("contentEncoding") != nullptr;
  if (schema.FindText("contentMediaType") == "application/json" && is_encoded) {
    Unsupported(place, "contentMediaType", "expected no `contentEncoding` beside it", values);
  } else if (schema.FindText("contentMediaType") == "application/json") {
    ValueSet documents = ValueSet::All();
    documents.strings[0].tests = {tests_.Written(JsonContent)};
    values = algebra_.Intersect(values, documents);
  }
  if (schema.FindText("contentEncoding") == "base64") AddFormat("byte", values);
}

void SchemaReader::AddFormat(std::string_view name, ValueSet& values) {
  const StringFormat* known = FindStringFormat(name);
  if (known == nullptr || values.strings.empty()) return;
  ValueSet formatted = ValueSet::All();
  formatted.strings[0].tests = {known->write != nullptr ? tests_.Written(known->write)
                                                        : tests_.Format(known->regex)};
  if (known->maximum > 0) formatted.strings[0].maximum = known->maximum;
  values = algebra_.Intersect(values, formatted);
}

void SchemaReader::ReadFormat(PlaceId place, ValueSet& values) {
  const JsonValue* format = document_.value(place).Find("format");
  if (format == nullptr || !format->IsString()) return;
  const std::string_view name = format->text();
  if (name == "int32" || name == "int64") {
    const bool wide = name == "int64";
    NumberShape range{
        .low = NumberBound{.value = *ParseDecimal(wide ? "-9223372036854775808" : "-2147483648")},
        .high = NumberBound{.value = *ParseDecimal(wide ? "9223372036854775807" : "2147483647")}};
    ValueSet in_range = ValueSet::All();
    in_range.numbers = {range};
    values = algebra_.Intersect(values, in_range);
    return;
  }
  if (FindStringFormat(name) != nullptr) {
    AddFormat(name, values);
  } else {
    report_.Ignored(document_.Pointer(place), "format");
  }
}

void SchemaReader::ReadEnum(PlaceId place, ValueSet& values) {
  const JsonValue& schema = document_.value(place);
  if (schema.Find("const") != nullptr) {
    const ValueSet& constant = ReadConstant(document_.Child(place, "const"));
    const bool is_relaxed = !constant.exact && constant.IsEmpty();
    if (!is_relaxed) values = algebra_.Intersect(values, constant);
  }
  const JsonValue* list = schema.Find("enum");
  if (list == nullptr) return;
  if (!list->IsArray()) {
    Invalid(place, "enum", "an array");
    return;
  }
  const PlaceId list_place = document_.Child(place, "enum");
  ValueSet allowed;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < list->items().size(); ++i) {
    const JsonValue& item = list->items()[i];
    if (item.IsString()) {
      texts.emplace_back(item.text());
    } else {
      ValueAlgebra::Append(allowed, MakeConstant(document_.Child(list_place, i)));
    }
  }
  if (!texts.empty()) allowed.strings = {{.tests = {tests_.Literals(std::move(texts))}}};
  algebra_.Tidy(allowed);
  values = algebra_.Intersect(values, allowed);
}

}  // namespace fathom::constraint
