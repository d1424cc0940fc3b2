#include "chat/call_opening.h"

#include <algorithm>

namespace fathom::chat {
namespace {

using Kind = CallOpening::Kind;

// With more blanks than this after it, a tag does not open a call.
constexpr std::size_t kMaxBlanks = 64;

std::size_t CountBlanks(std::string_view text) {
  return std::min(text.find_first_not_of(kTagBlanks), text.size());
}

bool IsThink(const Tag& tag) {
  return tag.kind == TagKind::kThinkOpen || tag.kind == TagKind::kThinkClose;
}

struct NextTag {
  TagScan::Outcome outcome = TagScan::Outcome::kNoTag;
  Tag tag{};
  std::size_t at = 0;  // bytes before the tag
};

// Finds the next tag: after blanks any tag; after skipped junk only a DSML tag.
NextTag FindTag(std::string_view text, bool skips_junk) {
  const std::size_t blanks = CountBlanks(text.substr(0, kMaxBlanks + 1));
  const std::size_t most = skips_junk ? kMaxJunkBytes : std::min(blanks, kMaxBlanks);
  for (std::size_t at = blanks; at <= most; ++at) {
    at = std::min(text.find('<', at), text.size());
    if (at > most) break;
    if (at == text.size()) return {.outcome = TagScan::Outcome::kIncomplete};
    const TagScan scan = ScanTag(text.substr(at));
    if (scan.outcome == TagScan::Outcome::kIncomplete) return {.outcome = scan.outcome};
    const bool is_next = scan.tag.is_dsml || (at == blanks && !(skips_junk && IsThink(scan.tag)));
    if (scan.outcome == TagScan::Outcome::kTag && is_next) return {scan.outcome, scan.tag, at};
  }
  return {};
}

// Reads the opening of a call after the opener of its block, which is `offset` bytes long.
CallOpening ReadInvoke(std::string_view text, std::size_t offset, const Tag& invoke, bool in_block,
                       const OpeningRules& rules) {
  if (!MayBeInvoke(invoke, rules.tools)) return {};
  CallOpening opening = {.name = invoke.name, .in_block = in_block, .bytes = offset + invoke.bytes};
  const std::string_view after = text.substr(opening.bytes);
  const std::size_t blanks = CountBlanks(after.substr(0, kMaxBlanks + 1));
  const bool is_known = blanks < after.size() || (rules.is_given && rules.is_over);
  if (is_known && (rules.is_given || blanks <= kMaxBlanks)) {
    opening.bytes += blanks;
    opening.kind = Kind::kBody;
    if (after.substr(blanks).starts_with('{')) return opening;
    opening.kind = Kind::kCall;
    if (rules.is_given) return opening;
    opening.bytes -= blanks;
  }
  const NextTag next = FindTag(after, rules.skips_junk && in_block && invoke.is_dsml);
  if (next.outcome == TagScan::Outcome::kIncomplete) {
    return {.kind = Kind::kIncomplete,
            .name = in_block ? invoke.name : std::string_view(),
            .in_block = in_block};
  }
  if (next.outcome == TagScan::Outcome::kNoTag) return {};
  if (next.tag.kind != TagKind::kParameterOpen && next.tag.kind != TagKind::kInvokeClose) return {};
  opening.kind = Kind::kCall;
  opening.bytes += next.at;
  return opening;
}

}  // namespace

bool MayBeInvoke(const Tag& tag, const std::optional<ToolSchemas>& tools) {
  return tag.is_dsml || (tools && tools->Knows(tag.name));
}

CallOpening ReadCallOpening(std::string_view text, const Tag& tag, const OpeningRules& rules) {
  if (tag.kind == TagKind::kInvokeOpen) return ReadInvoke(text, 0, tag, rules.in_block, rules);
  const NextTag next = FindTag(text.substr(tag.bytes), rules.skips_junk && tag.is_dsml);
  if (next.outcome == TagScan::Outcome::kIncomplete) return {.kind = Kind::kIncomplete};
  if (next.outcome == TagScan::Outcome::kNoTag) return {};
  const std::size_t offset = tag.bytes + next.at;
  if (next.tag.kind == TagKind::kInvokeOpen) return ReadInvoke(text, offset, next.tag, true, rules);
  const bool has_junk = CountBlanks(text.substr(tag.bytes, next.at)) < next.at;
  if (next.tag.kind != TagKind::kBlockClose || !tag.is_dsml || has_junk) return {};
  return {.kind = Kind::kEmptyBlock, .bytes = offset + next.tag.bytes};
}

}  // namespace fathom::chat
