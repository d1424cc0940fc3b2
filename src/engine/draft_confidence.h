// DraftConfidence: the chance that a draft is right, from what the drafter thinks of it
// (docs/spec/mtp.md 2.5 point 5), as verified drafts have shown it lately.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace fathom {

// Allocates nothing. One thread at a time.
class DraftConfidence {
 public:
  // Records that a draft of this confidence (a logit) was right, or was not; those before it were.
  void Verified(float confidence, bool right);
  // Returns the share of right drafts among the recent ones of about this confidence, or the most
  // that is likely where few were verified.
  double Chance(float confidence) const;
  // True if a draft should not be verified that is right with this chance, all before it included,
  // since fewer than `least` are worth their verification. False now and then all the same, so that
  // chances that have grown are noticed.
  bool Cuts(double chance, double least);

 private:
  static constexpr std::size_t kBins = 14;  // of one unit, around 0
  struct Bin {
    double right = 0;
    double weight = 0;  // in observations
  };
  static std::size_t FindBin(float confidence);

  std::array<Bin, kBins> bins_;
  std::int64_t n_cut_ = 0;
};

}  // namespace fathom
