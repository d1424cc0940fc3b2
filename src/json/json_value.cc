#include "json/json_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <numeric>

#include "base/check.h"
#include "base/parse_text.h"
#include "base/utf8.h"
#include "json/json_shape.h"
#include "json/json_writer.h"

namespace fathom::json {

// The bytes of a text follow; or the memory for `capacity` items and, in an object, then for as
// many keys.
struct JsonValue::Block {
  std::uint32_t size;  // bytes of the text, or items
  std::uint32_t capacity;

  char* chars() { return reinterpret_cast<char*>(this + 1); }
  JsonValue* items() { return reinterpret_cast<JsonValue*>(this + 1); }
  JsonValue* keys() { return items() + capacity; }

  static Block* New(std::size_t data_bytes, std::size_t size, std::size_t capacity) {
    Check(std::max(size, capacity) <= std::numeric_limits<std::uint32_t>::max(),
          "a JSON value of 4 GiB");
    return new (::operator new(sizeof(Block) + data_bytes))
        Block{static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(capacity)};
  }
};

JsonValue::JsonValue(const JsonValue& other)
    : source_begin_(other.source_begin_), kind_(other.kind_) {
  if (kind_ < Kind::kArray) {
    if (other.inside_bytes_ == kOnHeap) {
      SetText(kind_, other.text());
    } else {
      inside_bytes_ = other.inside_bytes_;
      std::memcpy(inside_, other.inside_, kInside);
    }
    return;
  }
  Reserve(other.n_items());
  for (std::size_t i = 0; i < other.n_items(); ++i) {
    (IsObject() ? Append(other.Keys()[i]) : Append()) = other.Items()[i];
  }
}

JsonValue::JsonValue(std::initializer_list<JsonElement> list) {
  const bool is_object = std::all_of(list.begin(), list.end(), [](const JsonElement& element) {
    const JsonValue& pair = element.value_;
    return pair.IsArray() && pair.n_items() == 2 && pair.Items()[0].IsString();
  });
  if (!is_object) {
    *this = Array(list);
    return;
  }
  kind_ = Kind::kObject;
  Reserve(list.size());
  for (const JsonElement& element : list) {
    JsonValue* pair = element.value_.Items();
    Append(std::move(pair[0])) = std::move(pair[1]);
  }
}

JsonValue JsonValue::Array(std::initializer_list<JsonElement> list) {
  JsonValue array;
  array.kind_ = Kind::kArray;
  array.Reserve(list.size());
  for (const JsonElement& element : list) array.Append() = std::move(element.value_);
  return array;
}

JsonValue JsonValue::Object() {
  JsonValue object;
  object.kind_ = Kind::kObject;
  return object;
}

void JsonValue::SetText(Kind kind, std::string_view text) {
  kind_ = kind;
  if (text.size() <= kInside) {
    inside_bytes_ = static_cast<std::uint8_t>(text.size());
    std::copy(text.begin(), text.end(), inside_);
    return;
  }
  Block* block = Block::New(text.size(), text.size(), text.size());
  std::copy(text.begin(), text.end(), block->chars());
  inside_bytes_ = kOnHeap;
  set_heap(block);
}

void JsonValue::SetFloat(double value) {
  if (!std::isfinite(value)) return;
  SetText(Kind::kFloat, PythonFloat(fmt::format("{}", value)));
}

JsonValue& JsonValue::Append() {
  const Block* block = heap();
  if (block == nullptr || block->size == block->capacity) {
    constexpr std::size_t kFirst = 4;
    Reserve(block == nullptr ? kFirst : 2 * std::size_t{block->capacity});
  }
  Block* roomy = heap();
  return *new (roomy->items() + roomy->size++) JsonValue();
}

JsonValue& JsonValue::Append(JsonValue key) {
  JsonValue& value = Append();
  Block* block = heap();
  new (block->keys() + block->size - 1) JsonValue(std::move(key));
  return value;
}

void JsonValue::Reserve(std::size_t n_items) {
  Block* from = heap();
  if (n_items == 0 || (from != nullptr && n_items <= from->capacity)) return;
  const std::size_t n_lists = IsObject() ? 2 : 1;
  Block* to = Block::New(n_items * n_lists * sizeof(JsonValue), 0, n_items);
  if (from != nullptr) {
    to->size = from->size;
    std::uninitialized_move_n(from->items(), from->size, to->items());
    if (IsObject()) std::uninitialized_move_n(from->keys(), from->size, to->keys());
    ::operator delete(from);  // moved-from values own nothing
  }
  set_heap(to);
}

std::string_view JsonValue::HeapText() const {
  Block* block = heap();
  return {block->chars(), block->size};
}

std::size_t JsonValue::n_items() const {
  const Block* block = kind_ < Kind::kArray ? nullptr : heap();
  return block == nullptr ? 0 : block->size;
}

JsonValue* JsonValue::Items() const {
  Block* block = kind_ < Kind::kArray ? nullptr : heap();
  return block == nullptr ? nullptr : block->items();
}

JsonValue* JsonValue::Keys() const { return heap()->keys(); }

void JsonValue::Swap(JsonValue& other) noexcept {
  std::swap(source_begin_, other.source_begin_);
  std::swap(kind_, other.kind_);
  std::swap(inside_bytes_, other.inside_bytes_);
  std::swap(inside_, other.inside_);
}

void JsonValue::Free() {
  Block* block = heap();
  if (kind_ >= Kind::kArray) {
    std::destroy_n(block->items(), block->size);
    if (IsObject()) std::destroy_n(block->keys(), block->size);
  }
  ::operator delete(block);
}

JsonValue& JsonValue::operator[](std::string_view key) {
  if (IsNull()) kind_ = Kind::kObject;
  Check(IsObject(), "a member of a JSON value that is no object");
  const JsonValue* found = Find(key);
  return found == nullptr ? Append(JsonValue(key)) : Items()[found - Items()];
}

void JsonValue::Update(JsonValue object) {
  if (IsNull()) kind_ = Kind::kObject;
  Check(IsObject() && (object.IsObject() || object.IsNull()), "an update with no object");
  Reserve(n_items() + object.n_items());
  for (std::size_t i = 0; i < object.n_items(); ++i) {
    Append(std::move(object.Keys()[i])) = std::move(object.Items()[i]);
  }
  MergeRepeatedKeys();
}

void JsonValue::push_back(JsonValue value) {
  if (IsNull()) kind_ = Kind::kArray;
  Check(IsArray(), "an element of a JSON value that is no array");
  Append() = std::move(value);
}

bool JsonValue::HasRepeatedKey() const {
  for (std::size_t i = 1; i < n_items(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (key(i) == key(j)) return true;
    }
  }
  return false;
}

void JsonValue::MergeRepeatedKeys() {
  const std::size_t n = n_items();
  if (n <= kFewMembers && !HasRepeatedKey()) return;
  JsonValue* const items = Items();
  JsonValue* const keys = Keys();
  // Sorted by keys, not hashed: an attacker can easily find keys that collide.
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const int compared = key(a).compare(key(b));
    return compared == 0 ? a < b : compared < 0;
  });
  bool has_repeated = false;
  for (std::size_t begin = 0, end = 0; begin < n; begin = end) {
    end = begin + 1;
    while (end < n && key(order[begin]) == key(order[end])) ++end;
    if (end == begin + 1) continue;
    has_repeated = true;
    items[order[begin]] = std::move(items[order[end - 1]]);
    // A key is a string. Null marks a member to remove.
    for (std::size_t i = begin + 1; i < end; ++i) keys[order[i]] = JsonValue();
  }
  if (!has_repeated) return;
  std::size_t n_kept = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (keys[i].IsNull()) continue;
    keys[n_kept].Swap(keys[i]);
    items[n_kept].Swap(items[i]);
    ++n_kept;
  }
  std::destroy_n(items + n_kept, n - n_kept);
  std::destroy_n(keys + n_kept, n - n_kept);
  heap()->size = static_cast<std::uint32_t>(n_kept);
}

// Returns 5 for 5, and also for 5.0: JSON has only one type of number, and some languages write
// whole numbers like this.
std::optional<std::int64_t> JsonValue::AsInteger() const {
  if (kind_ == Kind::kInteger) return ParseNumber<std::int64_t>(text());
  constexpr double kExact = 9007199254740992;  // 2^53: above it, not every whole number is a double
  const std::optional<double> number = kind_ == Kind::kFloat ? AsDouble() : std::nullopt;
  if (!number || !(std::fabs(*number) <= kExact) || std::trunc(*number) != *number) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*number);
}

std::optional<double> JsonValue::AsDouble() const {
  if (kind_ != Kind::kInteger && kind_ != Kind::kFloat) return std::nullopt;
  // Uses Python's repr, which is 0.0 for numbers that are too small.
  return ParseNumber<double>(kind_ == Kind::kFloat ? PythonFloat(text()) : std::string(text()));
}

const JsonValue* JsonValue::Find(std::string_view key) const {
  if (!IsObject()) return nullptr;
  for (std::size_t i = 0; i < n_items(); ++i) {
    if (this->key(i) == key) return Items() + i;
  }
  return nullptr;
}

std::string_view JsonValue::FindText(std::string_view key) const {
  const JsonValue* member = Find(key);
  return member != nullptr && member->IsString() ? member->text() : "";
}

std::string_view JsonValue::SourceIn(std::string_view source) const {
  return FirstJsonValue(source.substr(source_begin_));
}

bool JsonValue::Truthy() const {
  switch (kind_) {
    case Kind::kNull:
      return false;
    case Kind::kBool:
      return boolean();
    case Kind::kInteger:
      return text() != "0";
    case Kind::kFloat:
      return AsDouble() != 0.0;
    case Kind::kString:
      return !text().empty();
    case Kind::kArray:
    case Kind::kObject:
      return n_items() > 0;
  }
  return false;
}

std::string JsonValue::Describe() const {
  switch (kind_) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return boolean() ? "true" : "false";
    case Kind::kInteger:
    case Kind::kFloat:
      return "a number";
    case Kind::kString: {
      constexpr std::size_t kShown = 40;
      return PythonJsonString(ShortenedUtf8(text(), kShown));
    }
    case Kind::kArray:
      return "a list";
    case Kind::kObject:
      return "an object";
  }
  return "";
}

}  // namespace fathom::json
