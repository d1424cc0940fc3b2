#include "engine/trace.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"

namespace fathom::engine {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 16;

// Names are written without escaping.
void CheckPlain(std::string_view name) {
  for (const char c : name) {
    Check(c >= ' ' && c <= '~' && c != '"' && c != '\\', "names in a trace are plain ASCII");
  }
}

}  // namespace

// The file:
//
//   [{"ph":"M","pid":1,"tid":0,"name":"process_name","args":{"name":"fathom"}}
//   ,{"ph":"X","pid":1,"tid":0,"name":"step","ts":12.345,"dur":6.789,"args":{"tokens":8}}
//   ]
//
// The comma is at the beginning of its line: any first lines of the file are an array that lacks
// only the bracket.
struct TraceWriter::Impl {
  std::filesystem::path path;
  Clock::time_point start;
  std::FILE* file = nullptr;                                   // null after Close
  std::vector<char> buffer = std::vector<char>(kBufferBytes);  // buffer of `file`
  std::size_t buffered_bytes = 0;
  int first_error = 0;  // errno of the first failed write; later writes are skipped
  fmt::memory_buffer line;

  double Microseconds(Clock::time_point at) const {
    return std::chrono::duration<double, std::micro>(at - start).count();
  }

  void Begin(char phase, std::int64_t track, std::string_view name) {
    CheckPlain(name);
    line.clear();
    fmt::format_to(std::back_inserter(line), R"(,{{"ph":"{}","pid":1,"tid":{},"name":"{}")", phase,
                   track, name);
  }

  void Add(std::string_view name, double microseconds) {
    fmt::format_to(std::back_inserter(line), R"(,"{}":{:.3f})", name, microseconds);
  }

  void AddArguments(std::span<const Argument> arguments) {
    auto out = std::back_inserter(line);
    fmt::format_to(out, R"(,"args":{{)");
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      CheckPlain(arguments[i].name);
      fmt::format_to(out, R"({}"{}":)", i == 0 ? "" : ",", arguments[i].name);
      if (std::isfinite(arguments[i].value)) {
        fmt::format_to(out, "{}", arguments[i].value);
      } else {
        fmt::format_to(out, "null");  // JSON has no such number
      }
    }
    line.push_back('}');
  }

  void EndEvent() {
    line.push_back('}');
    line.push_back('\n');
    Write({line.data(), line.size()});
  }

  // Flushes the buffer after whole lines, so that the file of a killed program ends with a whole
  // line.
  void Write(std::string_view text) {
    if (file == nullptr || first_error != 0) return;
    if (buffered_bytes + text.size() > kBufferBytes) {
      if (std::fflush(file) != 0) first_error = errno;
      buffered_bytes = 0;
    }
    if (std::fwrite(text.data(), 1, text.size(), file) != text.size()) first_error = errno;
    buffered_bytes += text.size();
  }
};

TraceWriter::TraceWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TraceWriter::~TraceWriter() { static_cast<void>(Close()); }

Result<std::unique_ptr<TraceWriter>> TraceWriter::Open(const std::filesystem::path& path) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->file = std::fopen(path.c_str(), "w");
  if (impl->file == nullptr) {
    return MakeError(ErrorCode::kIo, "{}: cannot write the trace: {}", path.string(),
                     std::generic_category().message(errno));
  }
  std::setvbuf(impl->file, impl->buffer.data(), _IOFBF, impl->buffer.size());
  impl->start = Clock::now();
  impl->Write(
      "[{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\","
      "\"args\":{\"name\":\"fathom\"}}\n");
  return std::unique_ptr<TraceWriter>(new TraceWriter(std::move(impl)));
}

void TraceWriter::Span(std::string_view name, std::int64_t track, Clock::time_point begin,
                       Clock::time_point end, std::span<const Argument> arguments) {
  impl_->Begin('X', track, name);
  impl_->Add("ts", impl_->Microseconds(begin));
  impl_->Add("dur", std::chrono::duration<double, std::micro>(end - begin).count());
  impl_->AddArguments(arguments);
  impl_->EndEvent();
}

void TraceWriter::Instant(std::string_view name, std::int64_t track, Clock::time_point at,
                          std::span<const Argument> arguments) {
  impl_->Begin('i', track, name);
  impl_->Add("ts", impl_->Microseconds(at));
  fmt::format_to(std::back_inserter(impl_->line), R"(,"s":"t")");  // scope: the track
  impl_->AddArguments(arguments);
  impl_->EndEvent();
}

void TraceWriter::NameTrack(std::int64_t track, std::string_view name) {
  CheckPlain(name);
  impl_->Begin('M', track, "thread_name");
  fmt::format_to(std::back_inserter(impl_->line), R"(,"args":{{"name":"{}"}})", name);
  impl_->EndEvent();
}

void TraceWriter::Counter(std::string_view name, Clock::time_point at,
                          std::span<const Argument> values) {
  impl_->Begin('C', 0, name);
  impl_->Add("ts", impl_->Microseconds(at));
  impl_->AddArguments(values);
  impl_->EndEvent();
}

Status TraceWriter::Close() {
  if (impl_->file != nullptr) {
    impl_->Write("]\n");
    const bool closed = std::fclose(std::exchange(impl_->file, nullptr)) == 0;
    if (!closed && impl_->first_error == 0) impl_->first_error = errno;
  }
  if (impl_->first_error != 0) {
    return MakeError(ErrorCode::kIo, "{}: writing the trace failed: {}", impl_->path.string(),
                     std::generic_category().message(impl_->first_error));
  }
  return {};
}

}  // namespace fathom::engine
