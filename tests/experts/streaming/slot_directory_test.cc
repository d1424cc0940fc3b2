// The directory of the pool against one that is written naively, and the race of its policies.
#include "experts/streaming/slot_directory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <vector>

namespace fathom::experts {
namespace {

constexpr std::uint32_t kNoSlot = SlotDirectory::kNone;

// Lists in place of everything that takes constant time.
class NaiveDirectory {
 public:
  NaiveDirectory(std::size_t n_keys, std::size_t n_slots) : counts_(n_keys), n_slots_(n_slots) {}

  struct Entry {
    bool is_ready = false;
    int n_leases = 0;
    bool is_cold = false;
  };
  bool Has(std::uint32_t key) const { return entries_.contains(key); }
  Entry& at(std::uint32_t key) { return entries_.at(key); }
  std::vector<std::uint32_t> KeysIn(bool ready, bool leased) const {
    std::vector<std::uint32_t> keys;
    for (const auto& [key, entry] : entries_) {
      if (entry.is_ready == ready && (entry.n_leases > 0) == leased) keys.push_back(key);
    }
    return keys;
  }
  // The evicted key; nullopt: none was. False in `assigned`: no room.
  std::optional<std::uint32_t> Assign(std::uint32_t key, EvictionPolicy policy, bool& assigned) {
    assigned = true;
    std::optional<std::uint32_t> victim;
    if (entries_.size() == n_slots_) {
      victim = Victim(policy);
      assigned = victim.has_value();
      if (!assigned) return {};
      Erase(*victim);
    }
    entries_[key] = {};
    return victim;
  }
  void Erase(std::uint32_t key) {
    std::erase(order_, key);
    std::erase(by_count_, key);
    entries_.erase(key);
  }
  void Lease(std::uint32_t key) {
    if (at(key).n_leases++ > 0) return;
    std::erase(order_, key);
    std::erase(by_count_, key);
  }
  void Release(std::uint32_t key, bool is_scan) {
    Entry& entry = at(key);
    if (--entry.n_leases > 0 || !entry.is_ready) return;
    const auto warm = std::ranges::find_if(order_, [&](std::uint32_t k) { return !at(k).is_cold; });
    entry.is_cold = is_scan && (warm == order_.end() || counts_[key] <= counts_[*warm]);
    Insert(key);
  }
  void MarkReady(std::uint32_t key) {
    at(key).is_ready = true;
    at(key).is_cold = false;
    if (at(key).n_leases == 0) Insert(key);
  }
  void Use(std::uint32_t key, std::int64_t uses) {
    counts_[key] = std::min<std::int64_t>(counts_[key] + uses, UseCounts::kMost);
    if (std::erase(by_count_, key) > 0) by_count_.push_back(key);
  }
  void Halve() {
    std::ranges::stable_sort(by_count_, {}, [&](std::uint32_t k) { return counts_[k]; });
    for (std::int64_t& count : counts_) count /= 2;
  }

 private:
  void Insert(std::uint32_t key) {
    order_.push_back(key);
    by_count_.insert(at(key).is_cold ? by_count_.begin() : by_count_.end(), key);
  }
  std::optional<std::uint32_t> Victim(EvictionPolicy policy) {
    if (order_.empty()) return {};
    if (policy == EvictionPolicy::kLeastRecent) {
      const auto cold =
          std::ranges::find_if(order_, [&](std::uint32_t k) { return at(k).is_cold; });
      return cold != order_.end() ? *cold : order_.front();
    }
    return *std::ranges::min_element(by_count_, {}, [&](std::uint32_t k) { return counts_[k]; });
  }

  std::vector<std::int64_t> counts_;
  std::size_t n_slots_;
  std::map<std::uint32_t, Entry> entries_;
  // Evictable: by the time of the release; and so that the first of those with as few uses goes.
  std::vector<std::uint32_t> order_, by_count_;
};

// Chooses one of some keys.
std::optional<std::uint32_t> ChooseOne(const std::vector<std::uint32_t>& keys,
                                       std::mt19937& random) {
  if (keys.empty()) return {};
  return keys[random() % keys.size()];
}

TEST(SlotDirectory, IsTheNaiveOne) {
  std::int64_t n_switches = 0;
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    const std::size_t n_keys = 20 + random() % 60;
    const std::size_t n_slots = 1 + random() % (n_keys - 1);
    SlotDirectory directory(n_keys, n_slots);
    NaiveDirectory naive(n_keys, n_slots);
    std::int64_t n_tokens = 0;
    for (int i = 0; i < 4000; ++i) {
      const auto key = static_cast<std::uint32_t>(std::min(random() % n_keys, random() % n_keys));
      const std::uint32_t slot = directory.FindSlot(key);
      ASSERT_EQ(slot != kNoSlot, naive.Has(key));
      const bool is_scan = random() % 3 == 0;
      switch (random() % 8) {
        case 0:
        case 1: {
          const auto uses = 1 + static_cast<std::int64_t>(random() % 3);
          directory.Use(key, uses, is_scan);
          naive.Use(key, uses);
          break;
        }
        case 2:
        case 3:
          if (slot == kNoSlot) {
            bool assigned = false;
            const auto victim = naive.Assign(key, directory.race().best(), assigned);
            ASSERT_EQ(directory.Assign(key) != kNoSlot, assigned);
            if (victim) {
              ASSERT_EQ(directory.FindSlot(*victim), kNoSlot);
            }
          }
          break;
        case 4:
          if (const auto one = ChooseOne(naive.KeysIn(false, random() % 2 == 0), random)) {
            if (random() % 5 == 0 && naive.at(*one).n_leases == 0) {
              directory.MarkFree(directory.FindSlot(*one));
              naive.Erase(*one);
            } else {
              directory.MarkReady(directory.FindSlot(*one));
              naive.MarkReady(*one);
            }
          }
          break;
        case 5:
          if (slot != kNoSlot && naive.at(key).n_leases < 2) {
            directory.Lease(slot);
            naive.Lease(key);
          }
          break;
        case 6:
        case 7:
          if (const auto one = ChooseOne(naive.KeysIn(random() % 4 != 0, true), random)) {
            directory.Release(directory.FindSlot(*one), is_scan);
            naive.Release(*one, is_scan);
          }
          break;
      }
      ASSERT_EQ(directory.n_ready(),
                naive.KeysIn(true, true).size() + naive.KeysIn(true, false).size());
      ASSERT_GE(directory.n_available(), naive.KeysIn(true, false).size());
      if (i % 50 == 49) {
        directory.EndStep(300);
        n_switches = std::max(n_switches, directory.race().n_switches());
        n_tokens += 300;
        if (n_tokens >= PolicyRace::kHalvingTokens) {
          naive.Halve();
          n_tokens = 0;
        }
      }
    }
  }
  EXPECT_GT(n_switches, 0) << "both policies are compared";
}

TEST(SlotDirectory, EvictsTheLeastFrequentWhenThatHitsMoreOften) {
  // Experts 0 to 7 are used all the time, and 8 to 63 one after the other: LRU keeps the latter.
  SlotDirectory directory(64, 10);
  std::uint32_t other = 8;
  for (int token = 0; token < 3000; ++token) {
    std::vector<std::uint32_t> keys = {static_cast<std::uint32_t>(token % 8)};
    for (int i = 0; i < 3; ++i) keys.push_back(other = other == 63 ? 8 : other + 1);
    for (const std::uint32_t key : keys) {
      directory.Use(key, 1, false);
      if (directory.FindSlot(key) == kNoSlot) directory.MarkReady(directory.Assign(key));
      directory.Lease(directory.FindSlot(key));
      directory.Release(directory.FindSlot(key));
    }
    directory.EndStep(1);
  }
  EXPECT_EQ(directory.race().best(), EvictionPolicy::kLeastFrequent);
  EXPECT_GE(directory.race().n_switches(), 1);
  EXPECT_GT(directory.race().frequent_share(), directory.race().recent_share() + 0.02);
  int n_present = 0;
  for (std::uint32_t key = 0; key < 8; ++key)
    n_present += directory.FindSlot(key) != kNoSlot ? 1 : 0;
  EXPECT_EQ(n_present, 8);
}

TEST(SlotDirectory, LeasedExpertsStay) {
  SlotDirectory directory(10, 2);
  for (const std::uint32_t key : {0u, 1u}) {
    directory.MarkReady(directory.Assign(key));
    directory.Lease(directory.FindSlot(key));
  }
  EXPECT_EQ(directory.Assign(2), kNoSlot);
  directory.Release(directory.FindSlot(1));
  EXPECT_NE(directory.Assign(2), kNoSlot);
  EXPECT_EQ(directory.FindSlot(1), kNoSlot);
  EXPECT_EQ(directory.Assign(3), kNoSlot) << "the slot of 2 is being filled";
}

TEST(SlotDirectory, GuessesEvictNothing) {
  SlotDirectory directory(20, 6);
  for (std::uint32_t key = 0; key < 6; ++key) directory.MarkReady(directory.Assign(key));
  EXPECT_EQ(directory.AssignReserved(10), kNoSlot) << "there is no reserve";
  directory.SetReserve(2);
  EXPECT_EQ(directory.n_ready(), 4u);
  EXPECT_EQ(directory.n_reserved(), 2u);
  const std::uint32_t first = directory.AssignReserved(10);
  const std::uint32_t second = directory.AssignReserved(11);
  ASSERT_NE(first, kNoSlot);
  ASSERT_NE(second, kNoSlot);
  EXPECT_EQ(directory.AssignReserved(12), kNoSlot);
  for (std::uint32_t key = 2; key < 6; ++key) EXPECT_NE(directory.FindSlot(key), kNoSlot);
  // A guess that nobody needs gives its slot back, ready or not.
  directory.MarkReady(first);
  directory.DropGuess(first);
  directory.DropGuess(second);
  EXPECT_EQ(directory.FindSlot(10), kNoSlot);
  EXPECT_EQ(directory.FindSlot(11), kNoSlot);
  EXPECT_EQ(directory.n_ready(), 4u);
  EXPECT_EQ(directory.n_reserved(), 2u);
  directory.SetReserve(0);
  EXPECT_EQ(directory.n_reserved(), 0u);
  EXPECT_EQ(directory.n_available(), 6u);
}

TEST(SlotDirectory, AGuessThatIsNeededTakesTheRoomOfADemandRead) {
  SlotDirectory directory(20, 6);
  for (std::uint32_t key = 0; key < 6; ++key) directory.MarkReady(directory.Assign(key));
  directory.SetReserve(1);
  const std::uint32_t slot = directory.AssignReserved(10);
  EXPECT_TRUE(directory.IsGuess(slot));
  directory.Adopt(slot);
  EXPECT_FALSE(directory.IsGuess(slot));
  EXPECT_EQ(directory.n_reserved(), 1u);
  EXPECT_EQ(directory.n_ready(), 4u) << "the least recently used made room";
  EXPECT_EQ(directory.FindSlot(1), kNoSlot);
  directory.MarkReady(slot);
  directory.Release(slot);
  EXPECT_EQ(directory.FindSlot(10), slot);
  EXPECT_EQ(directory.n_ready(), 5u);
  // Without room the reserve waits.
  for (const std::uint32_t key : {2u, 3u, 4u, 5u, 10u}) directory.Lease(directory.FindSlot(key));
  directory.Adopt(directory.AssignReserved(11));
  EXPECT_EQ(directory.n_reserved(), 0u);
  EXPECT_EQ(directory.AssignReserved(12), kNoSlot);
}

}  // namespace
}  // namespace fathom::experts
