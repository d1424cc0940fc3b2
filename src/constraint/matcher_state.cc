#include "constraint/matcher_state.h"

#include <algorithm>

namespace fathom {

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

// Frees the bytes one after the other: a long text would need a deep stack otherwise.
UniqueText::~UniqueText() {
  Ref<UniqueText> next = std::move(previous);
  while (next.IsOnlyOwner()) {
    Ref<UniqueText> before = std::move(next->previous);
    next = std::move(before);
  }
}

std::string UniqueText::Text() const {
  std::string text(size, '\0');
  for (const UniqueText* at = this; at != nullptr && at->size > 0; at = at->previous.get()) {
    text[at->size - 1] = static_cast<char>(at->byte);
  }
  return text;
}

}  // namespace fathom
