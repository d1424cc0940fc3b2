#include "chat/trailing_block.h"

#include <algorithm>

namespace fathom::chat {

TrailingBlock::Verdict TrailingBlock::Read(std::string_view text) {
  if (text.size() > kMaxBytes) return Verdict::kText;
  while (position_ < text.size()) {
    const std::string_view rest = text.substr(position_);
    const std::size_t before = std::min(rest.find('<'), rest.size());
    // Only blanks may appear between the openers and after the block.
    const bool is_free = has_call_ && !is_closed_;
    const bool is_blank = rest.substr(0, before).find_first_not_of(kTagBlanks) == rest.npos;
    if (!is_free && !is_blank) return Verdict::kText;
    position_ += before;
    if (before == rest.size()) break;
    const std::size_t begin = position_;
    const Verdict verdict = ReadTag(rest.substr(before));
    if (verdict == Verdict::kText || position_ == begin) return verdict;
  }
  return is_closed_ ? Verdict::kWhole : Verdict::kOpen;
}

TrailingBlock::Verdict TrailingBlock::ReadTag(std::string_view rest) {
  const TagScan scan = ScanTag(rest);
  if (scan.outcome == TagScan::Outcome::kIncomplete) return Verdict::kOpen;
  const bool is_tag = scan.outcome == TagScan::Outcome::kTag;
  const Tag& tag = scan.tag;
  if (position_ == 0) {
    position_ = tag.bytes;  // the opener of the block
  } else if (!has_call_) {
    if (!is_tag || tag.kind != TagKind::kInvokeOpen || !tag.is_dsml) return Verdict::kText;
    has_call_ = true;
    position_ += tag.bytes;
  } else if (is_closed_) {
    const bool is_end = is_tag && tag.kind == TagKind::kThinkClose && !is_after_reasoning_;
    if (!is_end) return Verdict::kText;
    is_after_reasoning_ = true;
    position_ += tag.bytes;
  } else if (is_tag && tag.is_dsml && tag.kind == TagKind::kBlockClose) {
    is_closed_ = true;
    position_ += tag.bytes;
  } else if (is_tag && (tag.kind == TagKind::kThinkClose ||
                        (tag.is_dsml && tag.kind == TagKind::kBlockOpen))) {
    return Verdict::kText;  // the reasoning continues after a mention
  } else {
    ++position_;
  }
  return Verdict::kOpen;
}

}  // namespace fathom::chat
