#include "engine/allowed_tokens.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "sampling/sampling_row.h"

namespace fathom::engine {
namespace {

bool Contains(std::span<const Token> ascending, Token token) {
  return std::ranges::binary_search(ascending, token);
}

// Returns an error with the code of a constraint's error, under a name that clients know.
Error NamedError(const Error& error) {
  const std::string_view name = error.code == ErrorCode::kResourceExhausted
                                    ? kConstraintTooComplex
                                    : kConstraintUnsatisfiable;
  const bool is_named = std::string_view(error.message).starts_with(name);
  return {ErrorCode::kInvalidArgument,
          is_named ? error.message : fmt::format("{}: {}", name, error.message)};
}

void ExcludeOthers(std::span<const std::uint64_t> words, std::span<float> logits) {
  for (std::size_t first = 0; first < logits.size(); first += 64) {
    const std::uint64_t allowed = first / 64 < words.size() ? words[first / 64] : 0;
    const std::span<float> part =
        logits.subspan(first, std::min<std::size_t>(64, logits.size() - first));
    if (allowed == 0) {
      std::ranges::fill(part, kExcludedLogit);
      continue;
    }
    for (std::uint64_t others = ~allowed; others != 0; others &= others - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(others));
      if (i >= part.size()) break;
      part[i] = kExcludedLogit;
    }
  }
}

}  // namespace

Result<AllowedTokens> AllowedTokens::Find(const FoundMask& found, std::span<const Token> stops,
                                          std::span<const Token> postponed,
                                          std::int64_t vocab_size) {
  if (found.error) return Unexpected(NamedError(*found.error));
  AllowedTokens allowed;
  allowed.mask_ = &found.mask;
  allowed.n_ = found.mask.AllowsAll() ? vocab_size : found.mask.n_allowed();
  if (!found.can_end) {
    allowed.stops_ = stops;
  }
  allowed.n_ -=
      std::ranges::count_if(allowed.stops_, [&](Token token) { return found.mask.Allows(token); });
  if (allowed.n_ <= 0) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: expected a token that the constraint allows and that is no stop token, "
                     "found none",
                     kConstraintUnsatisfiable);
  }
  const std::int64_t n_postponed =
      std::ranges::count_if(postponed, [&](Token token) { return allowed.Has(token); });
  if (n_postponed < allowed.n_) {
    allowed.postponed_ = postponed;
    allowed.n_ -= n_postponed;
  }
  return allowed;
}

bool AllowedTokens::Has(Token token) const {
  return mask_->Allows(token) && !Contains(stops_, token) && !Contains(postponed_, token);
}

std::optional<Token> AllowedTokens::Only() const {
  if (n_ != 1) return std::nullopt;
  const std::span<const std::uint64_t> words = mask_->words();
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (std::uint64_t left = words[i]; left != 0; left &= left - 1) {
      const auto token =
          static_cast<Token>(64 * i + static_cast<std::size_t>(std::countr_zero(left)));
      if (Has(token)) return token;
    }
  }
  return std::nullopt;
}

void AllowedTokens::Apply(std::span<float> logits) const {
  if (!mask_->AllowsAll()) {
    ExcludeOthers(mask_->words(), logits);
  }
  for (const std::span<const Token> excluded : {stops_, postponed_}) {
    for (const Token token : excluded) {
      logits[static_cast<std::size_t>(token)] = kExcludedLogit;
    }
  }
}

}  // namespace fathom::engine
