// Memory of a backend that the host does not reach, and faults in what lies there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/gpu/gpu_backend.h"
#include "kernels/registry.h"
#include "kernels/staging.h"
#include "tests/emulator/emulator_driver.h"
#include "tests/testing/remote_backend.h"

namespace fathom::kernels {
namespace {

using testing::TestMemory;

std::vector<std::byte> Counted(int n) {
  std::vector<std::byte> bytes;
  for (int i = 0; i < n; ++i) {
    bytes.push_back(static_cast<std::byte>(i));
  }
  return bytes;
}

struct NamedMemory {
  std::string name;
  std::function<std::unique_ptr<Backend>()> make;
};

void PrintTo(const NamedMemory& memory, std::ostream* out) { *out << memory.name; }

// The reference with every kind of memory, and a GPU.
std::vector<NamedMemory> Memories() {
  std::vector<NamedMemory> memories;
  for (const TestMemory memory : testing::kTestMemories) {
    memories.push_back(
        {testing::Name(memory), [memory] { return testing::MakeReference(memory); }});
  }
  for (const bool when_awaited : {false, true}) {
    memories.push_back({when_awaited ? "GpuAwaited" : "Gpu", [when_awaited] {
                          return *GpuBackend::Make(
                              MakeEmulatorDriver({.runs_when_awaited = when_awaited}));
                        }});
  }
  return memories;
}

class DeviceMemory : public ::testing::TestWithParam<NamedMemory> {
 protected:
  void SetUp() override { ASSERT_TRUE(backend_->Reserve({.max_tokens = 4})); }

  std::unique_ptr<Backend> backend_ = GetParam().make();
};
INSTANTIATE_TEST_SUITE_P(Memory, DeviceMemory, ::testing::ValuesIn(Memories()),
                         [](const auto& memory) { return memory.param.name; });

TEST_P(DeviceMemory, IsZeroedAndCopiedByTheBackend) {
  const std::unique_ptr<Buffer> buffer = *backend_->Allocate(100, MemoryKind::kDevice);
  EXPECT_EQ(buffer->bytes(), 100);
  EXPECT_EQ(buffer->host().empty(), !backend_->OnHost());
  EXPECT_THAT(testing::ReadBack(*backend_, buffer->address(), 100), ::testing::Each(std::byte{0}));
  std::vector<std::byte> numbers = Counted(20);
  backend_->Upload(buffer->address() + 10, numbers);
  numbers.assign(20, std::byte{99});  // has been read
  const std::vector<PieceCopy> pieces = {{buffer->address() + 50, buffer->address() + 15, 3},
                                         {buffer->address() + 60, buffer->address() + 10, 1}};
  backend_->CopyPieces(pieces);
  EXPECT_EQ(testing::ReadBack(*backend_, buffer->address() + 10, 20), Counted(20));
  EXPECT_THAT(testing::ReadBack(*backend_, buffer->address() + 50, 4),
              ::testing::ElementsAre(std::byte{5}, std::byte{6}, std::byte{7}, std::byte{0}));
}

TEST_P(DeviceMemory, SharedMemoryHasOneAddress) {
  const std::unique_ptr<Buffer> device = *backend_->Allocate(64, MemoryKind::kDevice);
  const std::unique_ptr<Buffer> shared = *backend_->Allocate(64, MemoryKind::kShared);
  ASSERT_EQ(shared->host().data(), shared->address());
  backend_->Upload(device->address(), Counted(8));
  const Matrix<std::byte> rows = {device->address(), 2, 4};
  const Matrix<std::byte> staged = StageForHost(*backend_, rows, {shared->address(), 2, 4});
  ASSERT_TRUE(backend_->Synchronize());
  EXPECT_EQ(staged.Row(1)[0], std::byte{4});
  staged.Row(1)[0] = std::byte{44};
  UnstageFromHost(*backend_, staged, rows);
  EXPECT_EQ(testing::ReadBack(*backend_, rows.Row(1), 1).front(), std::byte{44});
}

TEST_P(DeviceMemory, AnUnknownTokenIsAFault) {
  const std::unique_ptr<Buffer> table = *backend_->Allocate(3 * 16 * 2, MemoryKind::kDevice);
  const std::unique_ptr<Buffer> out = *backend_->Allocate(2 * 16 * 2, MemoryKind::kDevice);
  const std::vector<Token> tokens = {2, 3};
  const std::vector<std::int32_t> positions = {0, 1}, segment_of_row = {0, 0};
  const std::vector<Segment> segments = {{.n_tokens = 2}};
  const BatchView batch = {tokens, positions, segment_of_row, segments};
  ASSERT_TRUE(backend_->BeginStep(batch, {}));
  backend_->Embed(batch, {reinterpret_cast<const Bf16*>(table->address()), 3, 16},
                  {reinterpret_cast<Bf16*>(out->address()), 2, 16});
  const Status found = backend_->Wait(backend_->Mark());
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kInvalidData);
  EXPECT_EQ(found.error().message,
            "a step's data, row 1: expected a token of the vocabulary, found another one");
  EXPECT_TRUE(backend_->Synchronize());  // told once
}

// More changes than a block has threads, in no order, some entries several times: the last one
// counts.
TEST_P(DeviceMemory, EntriesOfTablesChange) {
  constexpr int kEntries = 700;
  if (backend_->OnHost()) GTEST_SKIP() << "the host's tables are used in place";
  const std::unique_ptr<Buffer> table =
      *backend_->Allocate(kEntries * sizeof(std::int32_t), MemoryKind::kDevice);
  auto* const entries = reinterpret_cast<std::int32_t*>(table->address());
  std::vector<TableChange> changes;
  std::vector<std::int32_t> expected(kEntries);
  for (int i = 0; i < 3 * kEntries; ++i) {
    const int entry = i * 389 % kEntries;
    if (entry % 7 == 0) continue;  // stays 0
    changes.push_back({entries + entry, i});
    expected[static_cast<std::size_t>(entry)] = i;
  }
  ASSERT_TRUE(backend_->BeginStep({}, changes));
  const std::vector<std::byte> found =
      testing::ReadBack(*backend_, table->address(), kEntries * sizeof(std::int32_t));
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size()), 0);
}

// Results larger than the pinned memory they pass through, and several before one wait.
TEST_P(DeviceMemory, DownloadsArriveWithTheirTicket) {
  constexpr int kBytes = 1 << 20;
  std::vector<std::byte> bytes(kBytes);
  for (int i = 0; i < kBytes; ++i)
    bytes[static_cast<std::size_t>(i)] = static_cast<std::byte>(i * 7 >> 3);
  const std::unique_ptr<Buffer> buffer = *backend_->Allocate(kBytes, MemoryKind::kDevice);
  backend_->Upload(buffer->address(), bytes);
  std::vector<std::byte> first(1000), second(1000), large(kBytes);
  backend_->Download(first, buffer->address() + 5);
  const Ticket ticket = backend_->Mark();
  backend_->Download(second, buffer->address() + 77);
  ASSERT_TRUE(backend_->Wait(ticket));
  EXPECT_EQ(std::memcmp(first.data(), bytes.data() + 5, first.size()), 0);
  backend_->Download(large, buffer->address());
  ASSERT_TRUE(backend_->Synchronize());
  EXPECT_EQ(std::memcmp(second.data(), bytes.data() + 77, second.size()), 0);
  EXPECT_TRUE(large == bytes);
}

TEST(RemoteBackend, NothingIsThereBeforeItIsAwaited) {
  const std::unique_ptr<Backend> backend = testing::MakeReference(TestMemory::kRemoteAwaited);
  const std::unique_ptr<Buffer> buffer = *backend->Allocate(8, MemoryKind::kDevice);
  std::vector<std::byte> first(1), second(1);
  backend->Upload(buffer->address(), Counted(8));
  backend->Download(first, buffer->address() + 3);
  const Ticket ticket = backend->Mark();
  backend->Download(second, buffer->address() + 4);
  EXPECT_EQ(first.front(), std::byte{0});
  ASSERT_TRUE(backend->Wait(ticket));
  EXPECT_EQ(first.front(), std::byte{3});
  EXPECT_EQ(second.front(), std::byte{0});
  ASSERT_TRUE(backend->Synchronize());
  EXPECT_EQ(second.front(), std::byte{4});
}

TEST(RemoteBackendDeathTest, TheHostCannotReachIt) {
  const std::unique_ptr<Backend> backend = testing::MakeReference(TestMemory::kRemote);
  const std::unique_ptr<Buffer> buffer = *backend->Allocate(8, MemoryKind::kDevice);
  EXPECT_DEATH(*buffer->address() = std::byte{1}, "");
  std::vector<std::byte> host(8);
  const PieceCopy copy = {host.data(), buffer->address(), 8};
  EXPECT_DEATH(backend->CopyPieces({&copy, 1}), "was given memory of the host");
}

}  // namespace
}  // namespace fathom::kernels
