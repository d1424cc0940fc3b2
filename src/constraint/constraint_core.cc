#include "constraint/constraint_core.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace fathom::constraint {
namespace {

constexpr std::size_t kMaxMaskBytes = std::size_t{32} << 20;
// Waits for other masks of the same grammar are most often shorter.
constexpr std::chrono::milliseconds kShortWait{2};
constexpr std::chrono::milliseconds kLongWait{20};  // after which a pace is asked whether to go on

}  // namespace

// Frees one piece after the other: a long text would need a deep stack otherwise.
ReadText::~ReadText() {
  std::shared_ptr<const ReadText> next = std::move(before);
  while (next != nullptr && next.use_count() == 1) {
    // No other owner has the piece.
    std::shared_ptr<const ReadText> further = std::move(const_cast<ReadText&>(*next).before);
    next = std::move(further);
  }
}

ConstraintCore::Parts::Parts(std::unique_ptr<Grammar> of, const ConstraintVocabulary& vocabulary,
                             const MatcherLimits& limits)
    : grammar(std::move(of)),
      matcher(*grammar, limits),
      masks(matcher, vocabulary, kMaxMaskBytes) {}

ConstraintCore::ConstraintCore(std::shared_ptr<const ConstraintVocabulary> vocabulary,
                               std::unique_ptr<Grammar> grammar, const MatcherLimits& limits)
    : vocabulary_(std::move(vocabulary)),
      limits_(limits.work),
      parts_(std::make_unique<Parts>(std::move(grammar), *vocabulary_, limits)) {}

std::unique_lock<TimedMutex> ConstraintCore::Lock(WorkPace* pace) {
  std::unique_lock lock(mutex_, kShortWait);
  if (!lock.owns_lock() && pace == nullptr) lock.lock();
  if (!lock.owns_lock()) {
    pace->BeginWait();
    while (!lock.try_lock_for(kLongWait) && pace->GoesOn()) {
    }
    pace->EndWait();
    if (!lock.owns_lock()) return lock;
  }
  if (!has_freed_.load(std::memory_order_relaxed)) return lock;
  std::vector<MatcherState> freed;
  const std::scoped_lock freed_lock(freed_mutex_);
  freed.swap(freed_);
  has_freed_.store(false, std::memory_order_relaxed);
  return lock;
}

void ConstraintCore::FinishCompiling() {
  matcher().Reset();
  matcher().Begin();
  parts_->grammar->meter.SetLimits(limits_);
}

bool ConstraintCore::TryFree() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  parts_.reset();
  return true;
}

void ConstraintCore::Free(MatcherState state) {
  if (const std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock()) {
    state = {};
    return;
  }
  const std::scoped_lock lock(freed_mutex_);
  freed_.push_back(std::move(state));
  has_freed_.store(true, std::memory_order_relaxed);
}

tl::unexpected<Error> ConstraintCore::TooComplexError() {
  return MakeError(ErrorCode::kResourceExhausted,
                   "constraint_too_complex: the grammar can be read in too many ways here");
}

tl::unexpected<Error> TokenNotAllowed(Token token) {
  return MakeError(ErrorCode::kInvalidArgument,
                   "constraint: expected a token that the grammar allows, found {}", token);
}

Status ConstraintCore::ReadAgain(const ReadText* last, MatcherState& to) {
  std::vector<const ReadText*> pieces;
  for (const ReadText* at = last; at != nullptr; at = at->before.get()) pieces.push_back(at);
  matcher().Reset();
  to = matcher().Begin();
  if (matcher().TooComplex()) return TooComplexError();
  for (auto at = pieces.rbegin(); at != pieces.rend(); ++at) {
    MatcherState next;
    Status read;
    switch ((*at)->kind) {
      case ReadText::Kind::kOpener:
        next = AfterOpener();
        if (matcher().TooComplex()) read = TooComplexError();
        break;
      case ReadText::Kind::kToken:
        read = Advance(to, (*at)->token, next);
        break;
      case ReadText::Kind::kText:
        read = Read(to, (*at)->text, next);
        break;
    }
    if (!read) return read;
    to = std::move(next);
  }
  return {};
}

Status ConstraintCore::Read(const MatcherState& from, std::string_view text, MatcherState& to) {
  to = from;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    MatcherState next;
    matcher().Reset();
    if (!matcher().Step(to, byte, next)) {
      if (matcher().TooComplex()) return TooComplexError();
      return MakeError(ErrorCode::kInvalidArgument,
                       "expected text that the constraint allows, found byte {} (0x{:02x})", i,
                       byte);
    }
    to = std::move(next);
  }
  return {};
}

Status ConstraintCore::Advance(const MatcherState& from, Token token, MatcherState& to) {
  const bool is_allowed = parts_->masks.Advance(from, token, to);
  if (matcher().TooComplex()) return TooComplexError();
  if (!is_allowed) return TokenNotAllowed(token);
  return {};
}

Result<std::shared_ptr<const MaskBuilder::Mask>> ConstraintCore::Mask(const MatcherState& state) {
  std::shared_ptr<const MaskBuilder::Mask> mask = parts_->masks.Build(state);
  if (mask == nullptr) return TooComplexError();
  return mask;
}

// The state after the < and ｜DSML｜ of a block that free text has begun; dead if there is no such
// block.
MatcherState ConstraintCore::AfterOpener() {
  matcher().Reset();
  const MatcherState begin = matcher().Begin();
  MatcherState behind_angle;
  MatcherState state;
  const std::optional<Token> dsml = vocabulary_->meaningful().dsml;
  if (!dsml || !matcher().Step(begin, '<', behind_angle) ||
      !matcher().StepToken(behind_angle, static_cast<std::uint32_t>(*dsml), false, state)) {
    state.Clear();
  }
  return state;
}

}  // namespace fathom::constraint
