#include "constraint/grammar/matcher_state.h"

#include <algorithm>

namespace fathom::constraint {

bool Equal(const SeenText* a, const SeenText* b) {
  for (; a != b; a = a->earlier.get(), b = b->earlier.get()) {
    if (a == nullptr || b == nullptr || a->n != b->n || a->text != b->text) return false;
  }
  return true;
}

bool Equal(const Memory* a, const Memory* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr) return false;
  return a->marks == b->marks && Equal(a->seen.get(), b->seen.get());
}

// Frees the bytes one after the other: a long text would need a deep stack otherwise. The stack is
// as deep as scopes are nested.
UniqueText::~UniqueText() {
  Ref<UniqueText> next = std::move(previous);
  while (next.IsOnlyOwner()) {
    Ref<UniqueText> before = std::move(next->previous);
    next = std::move(before);
  }
}

Ref<UniqueText> UniqueText::Begin(const UniqueScope& scope, Ref<UniqueText> outer) {
  auto* text = new UniqueText();
  text->outer = std::move(outer);
  for (const SeenText* seen = scope.seen.get(); seen != nullptr; seen = seen->earlier.get()) {
    text->rests.push_back(seen->text);
  }
  return Ref<UniqueText>(text);
}

Ref<UniqueText> UniqueText::Behind(const Ref<UniqueText>& text, std::uint8_t byte) {
  Ref<UniqueText> innermost;
  UniqueText* within = nullptr;
  for (const Ref<UniqueText>* at = &text; *at; at = &(*at)->outer) {
    Ref<UniqueText> next(new UniqueText());
    next->byte = byte;
    next->size = (*at)->size + 1;
    next->previous = *at;
    for (const std::string_view rest : (*at)->rests) {
      if (!rest.empty() && static_cast<std::uint8_t>(rest[0]) == byte) {
        next->rests.push_back(rest.substr(1));
      }
    }
    UniqueText* made = next.get();
    (within == nullptr ? innermost : within->outer) = std::move(next);
    within = made;
  }
  return innermost;
}

std::string UniqueText::Text() const {
  std::string text(size, '\0');
  for (const UniqueText* at = this; at != nullptr && at->size > 0; at = at->previous.get()) {
    text[at->size - 1] = static_cast<char>(at->byte);
  }
  return text;
}

}  // namespace fathom::constraint
