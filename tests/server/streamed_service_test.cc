// A service under load whose experts are streamed from a disk with every fault of
// docs/streaming.md: an answer is right, or it is an error that names the file and the place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "api/common/request_runner.h"
#include "engine/engine.h"
#include "experts/expert_parts.h"
#include "experts/streaming/streamed_experts.h"
#include "server/service.h"
#include "tests/api/api_model.h"
#include "tests/experts/streaming/faulty_reader.h"
#include "tests/http/fake_exchange.h"
#include "tests/model/test_model.h"

namespace fathom::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

constexpr int kClients = 4;
constexpr int kRequests = 3;  // of each client
constexpr std::int64_t kLeastSlots = 8;

// Faults of the disk.
enum class Disk {
  kWell,
  kShort,        // reads give less than was asked for
  kInterrupted,  // every other read is interrupted
  kFailsOnce,    // every fifth read fails, and succeeds when it is tried again
  kBrokenPlace,  // some expert can never be read
  kSlow,         // reads take longer than StreamingOptions::slow_read
  kHangs,        // reads of some expert do not end
  kTruncated,    // the files end early
};

struct Answered {
  int status = 0;
  std::string text;  // of the answer, or of the error
};

class StreamedServiceTest : public ApiModelTest {
 protected:
  static std::filesystem::path Fairy() { return ProjectPath("models/fairy"); }

  ~StreamedServiceTest() override {
    End();
    disk_ = Disk::kWell;  // before the reads that hang are awaited
  }

  // Serves the checkpoint; slots 0: from memory.
  void Serve(const std::filesystem::path& directory, std::int64_t slots) {
    End();
    ModelOptions options = {.max_sequences = kClients, .max_context = 128, .max_batch_tokens = 32};
    if (slots > 0) {
      options.parts =
          StreamedParts({.slots = slots,
                         .n_read_threads = 8,
                         .slow_read = std::chrono::milliseconds(20),
                         .longest_read = std::chrono::milliseconds(500),
                         .warn = [this](const std::string& text) { Warn(text); },
                         .open = OpenFaulty([this](const ReadCall& call, std::span<std::byte>& to) {
                           return Read(call, to);
                         })});
    }
    loaded_ = std::make_unique<TestModel>(directory, options, TestBackend{.n_threads = 1});
    auto engine = Engine::Create(
        loaded_->model(),
        {.eos_tokens = {1},
         .token_bytes = [this](Token token) { return tokenizer_.TokenBytes(token); },
         .prefix_cache = false,  // each answer needs experts for its whole prompt
         .on_failure = [this](const Error& error) { Warn("failed: " + error.message); }});
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = *std::move(engine);
    runner_ = std::make_unique<EngineRunner>(*engine_);
    service_ = std::make_unique<Service>(ServiceOptions{
        .generation = {.watch = std::chrono::milliseconds(5), .random_bits = CountingBits()}});
    service_->SetModel({.api = &model_,
                        .runner = runner_.get(),
                        .metrics = &engine_->metrics(),
                        .names = {"fairy"},
                        .created = 1700000000});
  }

  void End() {
    service_.reset();
    runner_.reset();
    engine_.reset();
    loaded_.reset();
  }

  Answered Ask(const std::string& method, const std::string& path, const std::string& body = "") {
    FakeExchange exchange;
    service_->Handle({.method = method, .path = path, .body = body}, exchange);
    return {.status = exchange.head.status, .text = exchange.text};
  }

  // All clients ask at once, one request after the other: [client * kRequests + request].
  std::vector<Answered> AgreeOnAllRanks() {
    std::vector<Answered> all(kClients * kRequests);
    std::vector<std::jthread> clients;
    for (int client = 0; client < kClients; ++client) {
      clients.emplace_back([&, client] {
        for (int i = 0; i < kRequests; ++i) {
          const int number = client * kRequests + i;
          const Json body = {{"prompt", std::string(1, static_cast<char>('a' + number))},
                             {"max_tokens", 1 + number % 4},
                             {"temperature", 0}};
          Answered& answered = all[static_cast<std::size_t>(number)];
          answered = Ask("POST", "/v1/completions", body.dump());
          const Json json = Json::parse(answered.text, nullptr, false);
          answered.text = answered.status == 200 ? json["choices"][0]["text"].get<std::string>()
                                                 : json["error"]["message"].get<std::string>();
        }
      });
    }
    clients.clear();
    return all;
  }

  // Returns the number of errors, each of which names a file and an offset.
  int ExpectRightOrNamed(const std::string& what) {
    const std::vector<Answered> all = AgreeOnAllRanks();
    int n_errors = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].status == 200) {
        EXPECT_EQ(all[i].text, right_[i]) << what << ", request " << i;
      } else {
        ++n_errors;
        EXPECT_GE(all[i].status, 500) << what;
        EXPECT_THAT(all[i].text,
                    AllOf(HasSubstr("storage_error: "), HasSubstr(".safetensors, offset ")))
            << what;
      }
    }
    return n_errors;
  }
  void ExpectAllRight(const std::string& what) { EXPECT_EQ(ExpectRightOrNamed(what), 0) << what; }

  void LearnRightAnswers() {
    Serve(Fairy(), 0);
    for (const Answered& answered : AgreeOnAllRanks()) {
      ASSERT_EQ(answered.status, 200) << answered.text;
      right_.push_back(answered.text);
    }
  }

  StreamedExperts& experts() { return *StreamedExperts::FindIn(loaded_->model()); }
  int HealthStatus() { return Ask("GET", "/health").status; }

  std::vector<std::string> warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }

  static constexpr std::size_t kExperts = 8;            // of a layer
  std::atomic<std::size_t> broken_key_ = 2 * kExperts;  // an expert of a learned layer
  std::atomic<Disk> disk_ = Disk::kWell;

 private:
  bool IsBrokenPlace(const ReadCall& call) {
    const FileRange& range = experts().files().Ranges(broken_key_).front();
    return call.file == range.file && call.offset == range.offset;
  }

  std::int64_t Read(const ReadCall& call, std::span<std::byte>& to) {
    switch (disk_) {
      case Disk::kWell:
        return kReadFile;
      case Disk::kShort:
        to = to.first(std::min<std::size_t>(to.size(), 1 + 4099 % to.size()));
        return kReadFile;
      case Disk::kInterrupted:
        return call.number % 2 == 0 ? -EINTR : kReadFile;
      case Disk::kFailsOnce:
        return call.number % 5 == 0 ? -EIO : kReadFile;
      case Disk::kBrokenPlace:
        return IsBrokenPlace(call) ? -EIO : kReadFile;
      case Disk::kSlow:
        std::this_thread::sleep_for(std::chrono::milliseconds(call.number % 8 == 0 ? 40 : 1));
        return kReadFile;
      case Disk::kHangs:
        while (IsBrokenPlace(call) && disk_ == Disk::kHangs) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return kReadFile;
      case Disk::kTruncated:
        return 0;
    }
    return kReadFile;
  }

  void Warn(const std::string& text) {
    const std::lock_guard lock(mutex_);
    warnings_.push_back(text);
  }

  std::vector<std::string> right_;
  std::mutex mutex_;
  std::vector<std::string> warnings_;  // guarded
  std::unique_ptr<TestModel> loaded_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<EngineRunner> runner_;
  std::unique_ptr<Service> service_;
};

TEST_F(StreamedServiceTest, NoFaultGivesAWrongAnswer) {
  LearnRightAnswers();
  Serve(Fairy(), kLeastSlots);  // each round reads every expert again
  ExpectAllRight("a disk without faults");
  disk_ = Disk::kShort;
  ExpectAllRight("short reads");
  disk_ = Disk::kInterrupted;
  ExpectAllRight("interrupted reads");
  disk_ = Disk::kFailsOnce;
  ExpectAllRight("reads that fail once");
  EXPECT_EQ(HealthStatus(), 200);

  disk_ = Disk::kSlow;
  ExpectAllRight("slow reads");
  EXPECT_THAT(warnings(), Contains(AllOf(HasSubstr("offset "), HasSubstr("has not ended for"))));

  disk_ = Disk::kBrokenPlace;
  int n_errors = 0;
  for (std::size_t expert = 0; expert < kExperts; ++expert) {
    broken_key_ = 2 * kExperts + expert;
    n_errors += ExpectRightOrNamed("a broken place");
  }
  EXPECT_GT(n_errors, 0);
  EXPECT_LT(n_errors, static_cast<int>(kExperts) * kClients * kRequests)
      << "requests that do not need the expert go on";
  const Answered health = Ask("GET", "/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_THAT(health.text, HasSubstr("storage_error"));
  disk_ = Disk::kWell;
  ExpectAllRight("after the fault");

  disk_ = Disk::kHangs;
  ExpectRightOrNamed("reads that do not end");
  disk_ = Disk::kWell;
  // Requests for the expert fail until its read has ended, a little after the disk is well.
  const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (ExpectRightOrNamed("while reads end") > 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), latest);
  }
  ExpectAllRight("after reads that did not end");
}

TEST_F(StreamedServiceTest, ThePoolShrinksAndGrowsUnderLoad) {
  LearnRightAnswers();
  Serve(Fairy(), 32);
  std::jthread pressure([this](const std::stop_token& stop) {
    for (std::int64_t slots = kLeastSlots; !stop.stop_requested(); slots = 40 - slots) {
      experts().SetSlots(slots);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  ExpectAllRight("memory pressure");
}

// A checkpoint of its own, which the test damages.
class StreamedServiceFiles : public StreamedServiceTest {
 protected:
  StreamedServiceFiles()
      : folder_(std::filesystem::temp_directory_path() / UniqueName()), model_(folder_ / "fairy") {
    std::filesystem::create_directories(folder_);
    std::filesystem::copy(Fairy(), model_, std::filesystem::copy_options::recursive);
  }
  ~StreamedServiceFiles() override {
    End();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  static std::string UniqueName() {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    return std::string("fathom_") + test->test_suite_name() + "_" + test->name();
  }
  template <class Do>
  void ForShards(const Do& damage) {
    std::vector<std::filesystem::path> shards;
    for (const auto& entry : std::filesystem::directory_iterator(model_)) {
      if (entry.path().extension() == ".safetensors") shards.push_back(entry.path());
    }
    for (const std::filesystem::path& shard : shards) damage(shard);
  }
  // All requests end with an error that says so, and no further one is taken.
  void ExpectStopped(const std::string& message) {
    bool is_said = false;
    for (const Answered& answered : AgreeOnAllRanks()) {
      EXPECT_GE(answered.status, 500);
      is_said = is_said || answered.text.find(message) != std::string::npos;
    }
    EXPECT_TRUE(is_said) << message;
    End();  // the engine says so last
    EXPECT_THAT(warnings(), Contains(AllOf(HasSubstr("failed: "), HasSubstr(message))));
  }

  std::filesystem::path folder_, model_;
};

TEST_F(StreamedServiceFiles, FilesThatAreRenamedStayOpen) {
  LearnRightAnswers();
  Serve(model_, 2 * kLeastSlots);
  ForShards([](const auto& shard) { std::filesystem::rename(shard, shard.string() + ".old"); });
  ExpectAllRight("renamed files");
}

TEST_F(StreamedServiceFiles, FilesThatChangeStopTheModel) {
  Serve(model_, 2 * kLeastSlots);
  ForShards([](const auto& shard) {
    std::filesystem::last_write_time(
        shard, std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  });
  ExpectStopped("checkpoint changed while running");
}

TEST_F(StreamedServiceFiles, FilesThatEndEarlyStopTheModel) {
  Serve(model_, 2 * kLeastSlots);
  disk_ = Disk::kTruncated;
  ExpectStopped("shard truncated");
}

}  // namespace
}  // namespace fathom::testing
