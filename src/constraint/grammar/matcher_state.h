// MatcherState: all ways in which a text so far can be read by a grammar, as a graph of shared,
// constant parts (docs/spec/constrained.md 3.2).
//
// A leaf is a place in the body of a rule, and a frame one entry of that rule: where the text goes
// on when the rule ends. Entries of a rule at the same place in the text share their frame, so that
// a frame is an item set of Earley's parser; all frames of one place are a column. Copies share
// columns: a copy is a snapshot, and an older copy a rollback. Columns that no state needs any more
// are freed, so the memory grows with the open rules, not with the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/grammar/automaton.h"
#include "constraint/grammar/expression.h"
#include "constraint/grammar/ref.h"

namespace fathom::constraint {

struct Column;

struct FrameRef {
  // In a return: null for a frame of the same column, which would otherwise own itself.
  Ref<Column> column{};
  std::uint32_t index = 0;
  friend bool operator==(const FrameRef&, const FrameRef&) = default;
};

// A text that a unique call has read; the earlier ones of the same entry follow. An ascending call
// keeps its last text only.
struct SeenText : RefCounted {
  std::string text;
  Ref<const SeenText> earlier{};
  int n = 1;                // texts, with the earlier ones
  bool is_scratch = false;  // made while a mask is computed
};

// A unique or ascending call that has not ended. Frames of the rules that are called within it
// refer to it, too.
struct UniqueScope : RefCounted {
  Ref<const SeenText> seen{};  // the texts that must not be repeated, or the one to be exceeded
  Ref<const UniqueScope> outer{};
  int depth = 1;  // scopes, with the outer ones
  bool is_ascending = false;
};

// The memory of a place in a rule since the rule was entered: marks, and texts of unique calls.
struct Memory : RefCounted {
  std::vector<std::uint64_t> marks;
  Ref<const SeenText> seen{};

  bool Has(std::uint32_t mark) const {
    return mark / 64 < marks.size() && (marks[mark / 64] >> (mark % 64) & 1) != 0;
  }
};
// Compares contents.
bool Equal(const Memory* a, const Memory* b);
bool Equal(const SeenText* a, const SeenText* b);

// The text of an open unique call so far, byte by byte, and the rests of the earlier texts that
// begin like it.
struct UniqueText : RefCounted {
  UniqueText() = default;
  ~UniqueText();
  Ref<UniqueText> previous{};
  Ref<UniqueText> outer{};  // the text of the outer scope, at the same place
  std::uint8_t byte = 0;
  std::uint32_t size = 0;
  // Views of SeenText, which the scope keeps.
  std::vector<std::string_view> rests;

  // The empty text at the beginning of a scope, with the earlier texts of the scope.
  static Ref<UniqueText> Begin(const UniqueScope& scope, Ref<UniqueText> outer);
  // The texts of this scope and of the outer ones after one more byte.
  static Ref<UniqueText> Behind(const Ref<UniqueText>& text, std::uint8_t byte);

  std::string Text() const;
};

struct Leaf {
  StateId state = kDeadState;
  std::uint32_t count = 0;  // code points that have begun, in a rule that counts
  FrameRef frame{};
  Ref<const Memory> memory{};
  Ref<UniqueText> unique{};  // the text of the innermost scope
};

// The place where a text goes on after a rule.
struct Return {
  StateId state = kDeadState;
  FrameRef frame{};
  Ref<const Memory> memory{};
};

struct Frame {
  RuleId rule = 0;
  int depth = 0;                   // recursive rules that are open, with this one
  Ref<const UniqueScope> scope{};  // the innermost scope
  bool begins_scope = false;       // this is the frame of a unique or ascending call
  bool ended_at_once = false;      // the rule can match the empty text here
  std::vector<Return> returns;
};

struct Column : RefCounted {
  std::vector<Frame> frames;
  bool is_scratch = false;  // made while a mask is computed
};

// The frame to which a return leads; `column` is the column of the frame that returns.
inline FrameRef ReturnFrame(const Return& back, const Ref<Column>& column) {
  return {back.frame.column ? back.frame.column : column, back.frame.index};
}

struct MatcherState {
  std::vector<Leaf> leaves;
  bool accepts = false;  // the text may end here

  bool IsDead() const { return leaves.empty() && !accepts; }
  void Clear() {
    leaves.clear();
    accepts = false;
  }
};

}  // namespace fathom::constraint
