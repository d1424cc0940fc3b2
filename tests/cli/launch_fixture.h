// LaunchTest: runs ranks as processes, and what the tests of them ask.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/cli/processes.h"
#include "tests/cli/program.h"
#include "tests/testing/checkpoint_files.h"

namespace fathom::testing {

inline std::string SomeTokens(int n_tokens) {
  std::string tokens = "0";
  for (int i = 1; i < n_tokens; ++i) {
    tokens += " " + std::to_string((static_cast<unsigned>(i) * 2654435761u >> 7) % 4000);
  }
  return tokens;
}

// In the words of whoever asked for it: a file, a buffer, the standard library.
inline bool SaysNoMemory(std::string_view message, std::size_t rank) {
  return message.starts_with(fmt::format("fathom: error: rank {}: ", rank)) &&
         message.find("memory") != std::string_view::npos;
}

class LaunchTest : public ::testing::Test {
 protected:
  std::filesystem::path out() const { return directory_.path() / "out.safetensors"; }

  // The bytes of what `logits` writes with these options, after these words.
  std::string Logits(std::vector<std::string> before, std::vector<std::string> options,
                     const std::filesystem::path& program = {}) {
    for (const char* word :
         {"logits", "--threads", "1", "--mtp", "--prefill", "140", "--chunk", "100", "--tokens"}) {
      before.emplace_back(word);
    }
    before.push_back(SomeTokens(150));
    before.insert(before.end(), {"--out", out().string()});
    before.insert(before.end(), options.begin(), options.end());
    const ProgramRun run = RunProgram(before, {.program = program});
    EXPECT_EQ(run.exit_code, 0) << run.error;
    EXPECT_EQ(run.out + run.error, "");
    std::string bytes = ReadFile(out());
    std::filesystem::remove(out());
    return bytes;
  }

  // Runs 2 ranks with these words, and calls `meet` for their processes. The time counts from this
  // call.
  ProgramRun RunAndMeet(const std::vector<std::string>& words,
                        const std::function<void(std::span<const pid_t>)>& meet,
                        std::chrono::seconds* took, const std::filesystem::path& program = {}) {
    ProgramRun run;
    std::jthread launcher([&] { run = RunProgram(words, {.program = program}); });
    // The launcher is the child of this process that has two.
    std::vector<pid_t> ranks;
    for (int i = 0; i < 1000 && ranks.size() < 2; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::ifstream file(task.path() / "children");
        for (pid_t child = 0; file >> child;) {
          if (const std::vector<pid_t> found = FindChildren(child); found.size() == 2) {
            ranks = found;
          }
        }
      }
    }
    EXPECT_EQ(ranks.size(), 2u);
    if (ranks.size() == 2) {
      meet(ranks);
    }
    const auto start = std::chrono::steady_clock::now();
    launcher.join();
    *took = std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - start);
    for (const pid_t rank : ranks) {
      EXPECT_TRUE(IsGoneSoon(rank)) << "a rank that is still there";
    }
    return run;
  }

  // Sends `signal` to the second rank of a long run, once it is under way.
  ProgramRun RunAndSignal(int signal, std::chrono::seconds* took,
                          std::vector<std::string> words = {"launch", "-n", "2"},
                          const std::filesystem::path& program = {}) {
    words.insert(words.end(), {"logits", "--threads", "1", "--prefill", "0", "--tokens",
                               SomeTokens(4000), "--out", out().string()});
    const auto meet = [&](std::span<const pid_t> ranks) {
      EXPECT_TRUE(MapsSoon(ranks[1], ".safetensors")) << "ranks that have met load weights";
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      ::kill(ranks[1], signal);
    };
    return RunAndMeet(words, meet, took, program);
  }

  // Denies `rank` memory from the moment it has joined, before it loads.
  ProgramRun RunOutOfMemory(std::size_t rank, std::chrono::seconds* took,
                            std::vector<std::string> words = {"launch", "-n", "2"},
                            const std::filesystem::path& program = {}) {
    const std::string saved = directory_.path() / "saved.json";
    Logits({"launch", "-n", "2"}, {"--redundant-experts", "4", "--save-expert-placement", saved});
    // The ranks have met when the first one opens this, and wait for what is in it.
    const std::string placement = directory_.path() / "placement.json";
    EXPECT_EQ(::mkfifo(placement.c_str(), 0600), 0);
    words.insert(words.end(),
                 {"logits", "--threads", "1", "--tokens", SomeTokens(9), "--out", out().string(),
                  "--redundant-experts", "4", "--expert-placement", placement});
    const auto meet = [&](std::span<const pid_t> ranks) {
      int pipe = -1;
      for (int i = 0; i < 1000 && pipe < 0; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        pipe = ::open(placement.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
      }
      EXPECT_GE(pipe, 0);
      const auto bytes = static_cast<rlim_t>(AddressSpace(ranks[rank]));
      const rlimit limit = {bytes, bytes};
      EXPECT_EQ(::prlimit(ranks[rank], RLIMIT_AS, &limit, nullptr), 0);
      const std::string text = ReadFile(saved);
      EXPECT_EQ(::write(pipe, text.data(), text.size()), std::ssize(text));
      ::close(pipe);
    };
    ProgramRun run = RunAndMeet(words, meet, took, program);
    std::filesystem::remove(saved);
    std::filesystem::remove(placement);
    return run;
  }

  const TemporaryDirectory directory_;
};

}  // namespace fathom::testing
