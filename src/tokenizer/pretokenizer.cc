#include "tokenizer/pretokenizer.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/check.h"

namespace fathom::tokenizer {
namespace {

constexpr std::size_t kMaxPatterns = 32;  // Split recurses once per pattern
// Backtracking steps of one match: the known patterns need about two per byte of the text.
constexpr std::uint64_t kMatchLimitBase = 1'000'000;
constexpr std::uint64_t kMatchLimitPerByte = 16;
constexpr std::uint32_t kHeapLimitKibibytes = 256 * 1024;

template <auto function>
struct Deleter {
  template <class T>
  void operator()(T* object) const {
    function(object);
  }
};
using Code = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;

std::string Pcre2Message(int code) {
  std::array<PCRE2_UCHAR, 256> buffer = {};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

// The patterns of the published files (docs/spec/tokenizer.md 3). They have equal meanings in
// Oniguruma, the library they were written for, and in PCRE2, except for white space.
constexpr std::array<std::string_view, 3> kKnownPatterns = {
    R"(\p{N}{1,3})",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
    R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
};

// The White_Space property of Unicode, as the inside of a character class. PCRE2's \s also contains
// U+180E.
constexpr std::string_view kWhiteSpace =
    R"(\t-\r\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

std::string ReplaceAll(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Returns a known pattern for PCRE2. Its line ends may be characters or escapes.
Result<std::string> ToPcre2Pattern(const std::string& source) {
  std::string pattern = ReplaceAll(ReplaceAll(source, "\r", "\\r"), "\n", "\\n");
  if (std::find(kKnownPatterns.begin(), kKnownPatterns.end(), pattern) == kKnownPatterns.end()) {
    return MakeError(ErrorCode::kUnsupported,
                     "expected a pattern of the published DeepSeek-V4 tokenizers, found pattern "
                     "'{}'",
                     source.substr(0, 200));
  }
  pattern = ReplaceAll(std::move(pattern), "\\s", fmt::format("[{}]", kWhiteSpace));
  return ReplaceAll(std::move(pattern), "\\S", fmt::format("[^{}]", kWhiteSpace));
}

struct Pattern {
  Code code;
  bool has_jit = false;
};

Result<Pattern> Compile(const std::string& source) {
  Result<std::string> translated = ToPcre2Pattern(source);
  if (!translated) return Unexpected(translated.error());
  int error = 0;
  PCRE2_SIZE offset = 0;
  Pattern pattern;
  pattern.code.reset(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, /*ccontext=*/nullptr));
  if (pattern.code == nullptr) {
    return MakeError(ErrorCode::kInvalidData, "pattern '{}': {}", source, Pcre2Message(error));
  }
  // Without JIT (no executable memory) the interpreter yields the same pieces.
  pattern.has_jit = pcre2_jit_compile(pattern.code.get(), PCRE2_JIT_COMPLETE) == 0;
  return pattern;
}

// The matching state of one call of Split; not shared between threads.
struct Matcher {
  const char* const text_begin;
  StopCheck stop;
  MatchData data{pcre2_match_data_create(1, nullptr)};
  MatchContext context{pcre2_match_context_create(nullptr)};

  Matcher(std::string_view text, const StopFunction& stop_function)
      : text_begin(text.data()), stop(stop_function) {
    Check(data != nullptr && context != nullptr, "PCRE2 has no memory for a match");
    const std::uint64_t limit = kMatchLimitBase + kMatchLimitPerByte * text.size();
    pcre2_set_match_limit(context.get(), static_cast<std::uint32_t>(std::min<std::uint64_t>(
                                             limit, std::numeric_limits<std::uint32_t>::max())));
    pcre2_set_heap_limit(context.get(), kHeapLimitKibibytes);
  }

  // Finds the first match in text at or after `start`; returns PCRE2's code.
  int Match(const Pattern& pattern, std::string_view text, std::size_t start) {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    if (pattern.has_jit) {
      const int code = pcre2_jit_match(pattern.code.get(), subject, text.size(), start, 0,
                                       data.get(), context.get());
      if (code != PCRE2_ERROR_JIT_STACKLIMIT) return code;
    }
    return pcre2_match(pattern.code.get(), subject, text.size(), start,
                       PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data.get(), context.get());
  }
};

}  // namespace

struct PreTokenizer::Impl {
  std::vector<Pattern> patterns;

  // Splits text with the patterns from `step` on.
  Status Split(std::size_t step, std::string_view text, Matcher& matcher,
               std::vector<std::string_view>& pieces) const {
    if (step == patterns.size()) {
      if (matcher.stop.IsStopped(static_cast<std::size_t>(text.data() - matcher.text_begin))) {
        return MakeError(ErrorCode::kUnavailable, "the text was not cut into pieces: stopped");
      }
      pieces.push_back(text);
      return {};
    }
    std::size_t done = 0;
    while (done < text.size()) {
      const int code = matcher.Match(patterns[step], text, done);
      std::size_t begin = text.size();
      std::size_t end = text.size();
      if (code >= 0) {
        const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(matcher.data.get());
        begin = offsets[0];
        end = offsets[1];
        Check(done <= begin && begin < end, "a pattern matched nothing");
      } else if (code != PCRE2_ERROR_NOMATCH) {
        return MakeError(ErrorCode::kInvalidArgument,
                         "cannot cut a text of {} bytes into pieces: {} (pattern {} of {})",
                         text.size(), Pcre2Message(code), step + 1, patterns.size());
      }
      for (const std::string_view piece :
           {text.substr(done, begin - done), text.substr(begin, end - begin)}) {
        if (!piece.empty()) {
          Status status = Split(step + 1, piece, matcher, pieces);
          if (!status) return status;
        }
      }
      done = end;
    }
    return {};
  }
};

PreTokenizer::PreTokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::Create(std::span<const std::string> patterns) {
  if (patterns.size() > kMaxPatterns) {
    return MakeError(ErrorCode::kUnsupported, "expected at most {} patterns, found {}",
                     kMaxPatterns, patterns.size());
  }
  auto impl = std::make_unique<Impl>();
  for (const std::string& source : patterns) {
    Result<Pattern> pattern = Compile(source);
    if (!pattern) return Unexpected(pattern.error());
    impl->patterns.push_back(std::move(*pattern));
  }
  return PreTokenizer(std::move(impl));
}

Status PreTokenizer::Split(std::string_view text, std::vector<std::string_view>& pieces,
                           const StopFunction& stop) const {
  Matcher matcher(text, stop);
  return impl_->Split(0, text, matcher, pieces);
}

}  // namespace fathom::tokenizer
