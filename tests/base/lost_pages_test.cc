#include "base/lost_pages.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "base/mapped_file.h"
#include "base/signal_mask.h"
#include "tests/testing/shared_data.h"

namespace fathom {
namespace {

const auto kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

// A loss stays for the life of a process: each test has one of its own.
class LostPagesTest : public ::testing::Test {
 protected:
  LostPagesTest() {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    std::ofstream(path_) << std::string(4 * kPage, 'x');
  }

  void Truncate(std::size_t size) const { std::filesystem::resize_file(path_, size); }

  const testing::TemporaryDirectory directory_;
  const std::filesystem::path path_ = directory_.path() / "shard";
};

int Byte(const MappedFile& file, std::size_t offset) {
  return std::to_integer<int>(static_cast<const volatile std::byte&>(file.bytes()[offset]));
}

using LostPagesDeathTest = LostPagesTest;

TEST_F(LostPagesDeathTest, ReadAsZerosAndAreReported) {
  const auto lose = [&] {
    HandleLostPages();
    const MappedFile file = MappedFile::Open(path_).value();
    Truncate(kPage);
    bool right = CheckLostPages().has_value();
    right = right && Byte(file, 2 * kPage + 5) == 0 && Byte(file, 3 * kPage) == 0;
    right = right && Byte(file, 0) == 'x';
    const Status lost = CheckLostPages();
    right = right && !lost && lost.error().code == ErrorCode::kInvalidData &&
            lost.error().message.starts_with(path_.string() + ": cannot read byte " +
                                             std::to_string(2 * kPage + 5) + ": ");
    std::exit(right ? 0 : 1);
  };
  EXPECT_EXIT(lose(), ::testing::ExitedWithCode(0),
              "fathom: .*shard: cannot read byte " + std::to_string(2 * kPage + 5) +
                  ": the file was truncated while it was in use, or its disk fails\n$");
}

TEST_F(LostPagesDeathTest, ManyThreadsMeetThem) {
  const auto lose = [&] {
    HandleLostPages();
    const MappedFile file = MappedFile::Open(path_).value();
    Truncate(0);
    const SignalsBlocked blocked;  // as threads of the program have them
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (std::size_t at = 0; at < file.bytes().size(); ++at) {
          if (Byte(file, at) != 0) std::abort();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::exit(CheckLostPages() ? 1 : 0);
  };
  EXPECT_EXIT(lose(), ::testing::ExitedWithCode(0), "cannot read byte [0-9]+: [^\n]*\n$");
}

TEST_F(LostPagesDeathTest, AnotherFaultEndsTheProcessAsEver) {
  const auto fault = [&] {
    HandleLostPages();
    const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    const void* bytes = ::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, file.get(), 0);
    Truncate(0);
    std::exit(*static_cast<const volatile char*>(bytes));
  };
  EXPECT_DEATH(fault(), "");
  EXPECT_DEATH((HandleLostPages(), ::raise(SIGBUS), std::exit(0)), "");
}

TEST_F(LostPagesDeathTest, AFileThatIsClosedIsNotWatched) {
  const auto fault = [&] {
    HandleLostPages();
    const void* address = nullptr;
    {
      const MappedFile file = MappedFile::Open(path_).value();
      address = file.bytes().data();
    }
    const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    const void* bytes =
        ::mmap(const_cast<void*>(address), kPage, PROT_READ, MAP_SHARED | MAP_FIXED, file.get(), 0);
    Truncate(0);
    std::exit(*static_cast<const volatile char*>(bytes));
  };
  EXPECT_DEATH(fault(), "");
}

}  // namespace
}  // namespace fathom
