// Full-size checkpoints as sparse files: the published totals of docs/spec/checkpoint.md 5, and the
// time to open them.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "checkpoint/expert_formats.h"
#include "checkpoint/safetensors.h"
#include "tests/testing/checkpoint_files.h"
#include "tests/testing/shared_data.h"

namespace fathom::checkpoint {
namespace {

using DTypeCounts = std::map<std::string, std::int64_t>;

std::string Config(std::string_view model) {
  return testing::ReadFile(
      testing::ProjectPath(fmt::format("tests/checkpoint/data/config.DeepSeek-V4-{}.json", model)));
}

struct Totals {
  std::int64_t n_main = 0;
  std::int64_t n_draft = 0;
  std::int64_t main_bytes = 0;
  std::int64_t draft_bytes = 0;
  DTypeCounts n_by_dtype;  // main layers only

  std::int64_t bytes() const { return main_bytes + draft_bytes; }
};

Totals Count(const Checkpoint& checkpoint) {
  Totals totals;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    const bool draft = tensor.name.starts_with("mtp.");
    (draft ? totals.n_draft : totals.n_main) += 1;
    (draft ? totals.draft_bytes : totals.main_bytes) +=
        static_cast<std::int64_t>(tensor.view.bytes.size());
    totals.n_by_dtype[std::string(Name(tensor.view.dtype))] += 1;
  }
  return totals;
}

// Writes the checkpoint and opens it; fails the test if either goes wrong.
Checkpoint OpenFullSize(const std::filesystem::path& directory, std::string_view config,
                        const testing::NativeOptions& options) {
  testing::WriteSparseCheckpoint(directory, config, options);
  const auto start = std::chrono::steady_clock::now();
  Result<Checkpoint> checkpoint = Checkpoint::Open(directory);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (!checkpoint) {
    ADD_FAILURE() << checkpoint.error().message;
    return {};
  }
  ::testing::Test::RecordProperty("open_milliseconds", static_cast<int>(seconds.count() * 1000));
  fmt::print("opened {} tensors of {} shards in {:.3f} s\n", checkpoint->tensors().size(),
             checkpoint->shards().size(), seconds.count());
  return std::move(*checkpoint);
}

TEST(FullSize, Flash) {
  const testing::TemporaryDirectory directory;
  const Checkpoint checkpoint = OpenFullSize(directory.path(), Config("Flash"), {});
  const Totals totals = Count(checkpoint);
  EXPECT_EQ(totals.n_main, 67'612);
  EXPECT_EQ(totals.n_draft, 1'575);
  EXPECT_EQ(totals.main_bytes, 156'015'698'140);
  EXPECT_EQ(totals.draft_bytes, 3'593'787'756);
  EXPECT_EQ(totals.bytes(), 159'609'485'896);
  EXPECT_EQ(totals.n_by_dtype, (DTypeCounts{{"BF16", 433},
                                            {"F32", 417},
                                            {"F8_E4M3", 375},
                                            {"F8_E8M0", 34'167},
                                            {"I8", 33'792},
                                            {"I64", 3}}));
  EXPECT_EQ(checkpoint.shards().size(), 46u);
  EXPECT_EQ(FindExpertFormats(checkpoint).n_fp4, 43 * 256);
}

TEST(FullSize, Pro) {
  const testing::TemporaryDirectory directory;
  const Checkpoint checkpoint = OpenFullSize(directory.path(), Config("Pro"), {});
  const Totals totals = Count(checkpoint);
  EXPECT_EQ(totals.n_main, 142'773);
  EXPECT_EQ(totals.n_draft, 2'343);
  EXPECT_EQ(totals.main_bytes, 850'748'205'004);
  EXPECT_EQ(totals.draft_bytes, 13'956'587'692);
  EXPECT_EQ(totals.bytes(), 864'704'792'696);
  EXPECT_EQ(totals.n_by_dtype, (DTypeCounts{{"BF16", 619},
                                            {"F32", 590},
                                            {"F8_E4M3", 528},
                                            {"F8_E8M0", 71'952},
                                            {"I8", 71'424},
                                            {"I64", 3}}));
  EXPECT_EQ(checkpoint.shards().size(), 64u);
}

TEST(FullSize, Flash0731) {
  const testing::TemporaryDirectory directory;
  const Checkpoint checkpoint =
      OpenFullSize(directory.path(), Config("Flash-0731"),
                   {.head = testing::NativeHead::kDSpark, .n_draft_stages = 3});
  const Totals totals = Count(checkpoint);
  EXPECT_EQ(totals.n_main, 67'612);
  EXPECT_EQ(totals.n_draft, 4'705);
  EXPECT_EQ(totals.draft_bytes, 10'862'838'300);
  EXPECT_EQ(totals.bytes(), 166'878'536'440);
  EXPECT_EQ(totals.n_by_dtype, (DTypeCounts{{"BF16", 445},
                                            {"F32", 433},
                                            {"F8_E4M3", 390},
                                            {"F8_E8M0", 35'718},
                                            {"I8", 35'328},
                                            {"I64", 3}}));
  EXPECT_EQ(checkpoint.shards().size(), 48u);
}

TEST(FullSize, BaseModels) {
  const testing::NativeOptions base = {.experts = ExpertDType::kFp8, .scales = DType::kF32};
  for (const auto& [model, n_tensors, bytes] : {std::tuple("Flash", 69'187, 292'555'345'480),
                                                std::tuple("Pro", 145'116, 1'602'325'824'632)}) {
    const testing::TemporaryDirectory directory;
    const Checkpoint checkpoint = OpenFullSize(directory.path(), Config(model), base);
    const Totals totals = Count(checkpoint);
    EXPECT_EQ(totals.n_main + totals.n_draft, n_tensors);
    EXPECT_EQ(totals.bytes(), bytes);
    EXPECT_EQ(FindExpertFormats(checkpoint).n_fp4, 0);
  }
}

// Pages of `bytes` that are in memory.
std::int64_t ResidentPages(std::span<const std::byte> bytes) {
  const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t begin =
      reinterpret_cast<std::uintptr_t>(bytes.data()) / page_bytes * page_bytes;
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size());
  std::vector<unsigned char> resident((end - begin + page_bytes - 1) / page_bytes);
  EXPECT_EQ(::mincore(reinterpret_cast<void*>(begin), end - begin, resident.data()), 0);
  return std::count_if(resident.begin(), resident.end(),
                       [](unsigned char page) { return (page & 1u) != 0; });
}

TEST(FullSize, OpeningLeavesTheWeightsOnDisk) {
  const testing::TemporaryDirectory directory;
  const std::vector<testing::TensorSpec> tensors = {{"a", DType::kU8, {std::int64_t{1} << 30}}};
  testing::WriteSafetensors(directory.path() / "model.safetensors", tensors);
  const Result<Checkpoint> checkpoint = Checkpoint::Open(directory.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const std::span<const std::byte> bytes = checkpoint->Find("a")->bytes;
  // The kernel reads ahead of the header by itself, at most a few MiB.
  constexpr std::int64_t kReadAheadPages = 2'048;
  EXPECT_LE(ResidentPages(bytes), kReadAheadPages);
  int sum = 0;
  for (std::size_t i = 0; i < bytes.size() / 16; i += 4'096) {
    sum += std::to_integer<int>(bytes[i]);
  }
  EXPECT_EQ(sum, 0);
  EXPECT_GT(ResidentPages(bytes), kReadAheadPages) << "touched pages must be seen as resident";
}

}  // namespace
}  // namespace fathom::checkpoint
