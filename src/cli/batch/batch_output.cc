#include "cli/batch/batch_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "api/anthropic/messages_api.h"
#include "api/openai/openai_api.h"
#include "api/responses/responses_api.h"
#include "cli/terminal/output.h"
#include "json/field_reader.h"
#include "json/json_value.h"
#include "json/json_writer.h"

namespace fathom::cli {
namespace {

// Every line of the output begins with this text. The id of a line that never ran continues with
// its number in the input.
constexpr std::string_view kOutputBegin = R"({"id":")";
constexpr std::string_view kLineId = "batch_line_";

tl::unexpected<BatchLineError> LineError(std::string custom_id, std::string code,
                                         std::string message) {
  return tl::unexpected<BatchLineError>(BatchLineError{
      .custom_id = std::move(custom_id), .code = std::move(code), .message = std::move(message)});
}

// Returns the API that the first path of the endpoint names; nullptr: batches do not support the
// endpoint.
const Api* FindBatchApi(std::string_view url) {
  for (const Api* api : {&kChatCompletions, &kCompletions, &kResponses, &kMessages}) {
    if (url == api->paths.front()) return api;
  }
  return nullptr;
}

tl::unexpected<Error> FileError(const std::string& path, const char* what) {
  return MakeError(ErrorCode::kIo, "{}: cannot {}: {}", path, what, std::strerror(errno));
}

}  // namespace

tl::expected<BatchInputLine, BatchLineError> ParseBatchLine(std::string_view line) {
  const Result<JsonValue> json = ParseJson(line);
  if (!json) return LineError("", "invalid_json_line", json.error().message);
  if (!json->IsObject()) {
    return LineError("", "invalid_json_line",
                     fmt::format("expected an object, found {}", DescribeFound(*json)));
  }
  const JsonValue* id = json->Find("custom_id");
  if (id == nullptr || !id->IsString() || id->text().empty()) {
    return LineError("", "missing_custom_id",
                     fmt::format("custom_id: expected a string that is not empty, found {}",
                                 id == nullptr ? "nothing" : DescribeFound(*id)));
  }
  FieldReader reader(*json);
  std::string method = "POST";
  std::string url;
  reader.ReadString("method", &method);
  reader.ReadString("url", &url);
  if (method != "POST") reader.Fail("method", "POST", PythonJsonString(method));
  const Api* api = FindBatchApi(url);
  if (api == nullptr) {
    reader.Fail("url", "/v1/chat/completions, /v1/completions, /v1/responses or /v1/messages",
                url.empty() ? "nothing" : PythonJsonString(url));
  }
  const JsonValue* body = json->Find("body");
  if (body == nullptr || !body->IsObject()) {
    reader.Fail("body", "an object", body == nullptr ? "nothing" : DescribeFound(*body));
  }
  if (reader.error())
    return LineError(std::string(id->text()), "invalid_request", reader.error()->message);
  return BatchInputLine{
      .custom_id = std::string(id->text()), .api = api, .body = std::string(body->SourceIn(line))};
}

Result<BatchOutputKey> ParseBatchOutputLine(std::string_view line) {
  const Result<JsonValue> json = ParseJson(line, {.python_constants = false});
  const JsonValue* id = json ? json->Find("id") : nullptr;
  const JsonValue* custom_id = json ? json->Find("custom_id") : nullptr;
  const JsonValue* response = json ? json->Find("response") : nullptr;
  const bool is_output = id != nullptr && id->IsString() && custom_id != nullptr &&
                         response != nullptr && json->Find("error") != nullptr;
  if (!is_output) {
    return MakeError(ErrorCode::kInvalidData, "expected a line of a batch's output, found {}",
                     json ? "other JSON" : "text that is not JSON");
  }
  const JsonValue* status = response->Find("status_code");
  BatchOutputKey key = {.is_error = status == nullptr || status->AsDouble() != 200.0};
  if (id->text().starts_with(kLineId)) {
    const char* end = id->text().data() + id->text().size();
    std::from_chars(id->text().data() + kLineId.size(), end, key.line_number);
  }
  if (custom_id->IsString()) key.custom_id = custom_id->text();
  return key;
}

std::string BatchReplyLine(std::string_view custom_id, std::string_view request_id,
                           const ApiReply& reply) {
  return fmt::format(
      "{}batch_req_{}\",\"custom_id\":{},\"response\":{{\"status_code\":{},\"request_id\":\"req_{}"
      "\",\"body\":{}}},\"error\":null}}\n",
      kOutputBegin, request_id, PythonJsonString(custom_id), reply.status, request_id, reply.body);
}

std::string BatchErrorLine(const BatchLineError& error, std::int64_t line_number) {
  return fmt::format(
      "{}{}{}\",\"custom_id\":{},\"response\":null,\"error\":{{\"code\":{},\"message\":{}}}}}\n",
      kOutputBegin, kLineId, line_number,
      error.custom_id.empty() ? "null" : PythonJsonString(error.custom_id),
      PythonJsonString(error.code),
      PythonJsonString(fmt::format("line {}: {}", line_number, error.message)));
}

bool MayBeginBatchOutput(std::string_view text) {
  const std::size_t n_bytes = std::min(text.size(), kOutputBegin.size());
  return text.substr(0, n_bytes) == kOutputBegin.substr(0, n_bytes);
}

Result<BatchOutput> BatchOutput::Open(const std::string& path, const std::string& input) {
  if (path == "-") return BatchOutput(Descriptor(), path);
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (file.get() < 0) return FileError(path, "write");
  BatchOutput output(std::move(file), path);
  if (Status checked = output.CheckFile(input); !checked) return Unexpected(checked.error());
  if (Status locked = output.Lock(); !locked) return Unexpected(locked.error());
  if (Status recovered = output.Recover(); !recovered) return Unexpected(recovered.error());
  return output;
}

Status BatchOutput::CheckFile(const std::string& input) const {
  struct stat out = {};
  if (::fstat(file_.get(), &out) != 0) return FileError(path_, "write");
  if (!S_ISREG(out.st_mode)) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: expected a regular file, which a later run can go on with; for a pipe "
                     "write to -",
                     path_);
  }
  struct stat in = {};
  const int read = input == "-" ? ::fstat(STDIN_FILENO, &in) : ::stat(input.c_str(), &in);
  if (read == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino) {
    return MakeError(ErrorCode::kInvalidArgument,
                     "{}: expected another file than the input, found the same", path_);
  }
  return {};
}

Status BatchOutput::Lock() const {
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) return {};
  if (errno == EWOULDBLOCK) {
    return MakeError(ErrorCode::kResourceExhausted, "{}: another batch is writing to it", path_);
  }
  return FileError(path_, "lock");
}

Status BatchOutput::Recover() {
  const Result<std::string> content = ReadDescriptor(file_.get(), path_, kMostBatchBytes);
  if (!content) return Unexpected(content.error());
  std::string_view rest = *content;
  for (std::int64_t number = 1;; ++number) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;
    const Result<BatchOutputKey> key = ParseBatchOutputLine(rest.substr(0, end));
    if (!key) {
      return MakeError(ErrorCode::kInvalidData, "{}: line {}: {}", path_, number,
                       key.error().message);
    }
    if (key->line_number > 0) {
      failed_lines_.insert(key->line_number);
    } else {
      if (key->is_error) failed_.insert(key->custom_id);
      answered_.insert(key->custom_id);
    }
    rest.remove_prefix(end + 1);
  }
  if (!MayBeginBatchOutput(rest)) {
    return MakeError(ErrorCode::kInvalidData,
                     "{}: expected the output of a batch, found another text at its end", path_);
  }
  n_bytes_ = static_cast<off_t>(content->size() - rest.size());
  if (!rest.empty() && ::ftruncate(file_.get(), n_bytes_) != 0) {
    return FileError(path_, "cut off its last line, which is not complete");
  }
  return {};
}

Status BatchOutput::CheckWhole() const {
  if (!is_file()) return {};
  struct stat found = {};
  if (::fstat(file_.get(), &found) != 0) return FileError(path_, "read its size");
  if (found.st_nlink == 0) {
    return MakeError(ErrorCode::kIo, "{}: the file was removed while the batch wrote to it", path_);
  }
  if (found.st_size != n_bytes_) {
    return MakeError(ErrorCode::kIo,
                     "{}: expected the {} bytes that the batch has written, found {}: the file was "
                     "changed meanwhile; the same command asks again for the answers it lacks",
                     path_, n_bytes_, found.st_size);
  }
  return {};
}

Status BatchOutput::Append(std::string_view line) {
  if (!is_file()) return Print(line);
  if (Status whole = CheckWhole(); !whole) return whole;
  const Status written = WriteDescriptor(file_.get(), path_, line);
  if (written) {
    n_bytes_ += static_cast<off_t>(line.size());
    return {};
  }
  const bool is_whole = ::ftruncate(file_.get(), n_bytes_) == 0;
  return MakeError(written.error().code,
                   "{}; what was written before is {}; the same command goes "
                   "on from there",
                   written.error().message,
                   is_whole ? "complete" : "complete but for its last line");
}

}  // namespace fathom::cli
