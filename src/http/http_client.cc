#include "http/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <optional>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/parse_text.h"

namespace fathom::http {
namespace {

struct CurlDelete {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using CurlFields = std::unique_ptr<curl_slist, CurlDelete>;

bool HasLineBreak(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) != text.npos;
}

void Append(CurlFields& list, const std::string& line) {
  curl_slist* longer = curl_slist_append(list.get(), line.c_str());
  Check(longer != nullptr, "libcurl has no memory for a header field");
  static_cast<void>(list.release());
  list.reset(longer);
}

Result<CurlFields> MakeFields(const HttpFields& fields) {
  CurlFields list;
  // Removes fields that libcurl would add itself.
  for (const char* removed : {"Accept:", "Content-Type:", "Expect:"}) {
    Append(list, removed);
  }
  for (const auto& [name, value] : fields) {
    if (HasLineBreak(name) || HasLineBreak(value)) {
      return MakeError(ErrorCode::kInvalidArgument, "a line break in the field {}",
                       HasLineBreak(name) ? "name" : name);
    }
    // "name;" is libcurl's way to send a field without a value.
    Append(list, value.empty() ? name + ";" : fmt::format("{}: {}", name, value));
  }
  return list;
}

// Collects the data of one reply from libcurl's callbacks.
class ReplyReader {
 public:
  ReplyReader(CURL* easy, const HttpClientLimits& limits, const HttpPieceSink& sink)
      : easy_(easy), limits_(limits), sink_(sink) {}

  // Reads one line of the header, with its line break.
  Status ReadHeaderLine(std::string_view line) {
    if (header_is_complete_) return {};  // a trailer
    n_header_bytes_ += line.size();
    if (n_header_bytes_ > limits_.header_bytes) {
      return MakeError(ErrorCode::kInvalidData, "the header is over the limit of {} bytes",
                       limits_.header_bytes);
    }
    const std::string_view field = WithoutBlankEnds(line);
    if (field.empty()) {
      header_is_complete_ = Information(CURLINFO_RESPONSE_CODE) >= 200;
    } else if (field.starts_with("HTTP/")) {
      reply_.fields.clear();  // fields of a 1xx reply
    } else {
      const std::size_t colon = field.find(':');
      if (colon == 0 || colon == field.npos) {
        return MakeError(ErrorCode::kInvalidData,
                         "the reply is not HTTP/1.1: expected a field, found \"{}\"", field);
      }
      reply_.fields.emplace_back(field.substr(0, colon), WithoutBlankEnds(field.substr(colon + 1)));
    }
    return {};
  }

  Status ReadPiece(std::string_view piece) {
    if (sink_ && Information(CURLINFO_RESPONSE_CODE) < 300) {
      if (sink_(piece)) return {};
      return MakeError(ErrorCode::kUnavailable, "ended by the reader of the stream");
    }
    reply_.body += piece;
    if (reply_.body.size() <= limits_.body_bytes) return {};
    return MakeError(ErrorCode::kInvalidData, "the body has more than {} bytes",
                     limits_.body_bytes);
  }

  // Callback of libcurl for header lines or body pieces: any other result than n ends the transfer.
  template <Status (ReplyReader::*kRead)(std::string_view)>
  static std::size_t Receive(char* bytes, std::size_t, std::size_t n, void* reader) {
    auto& self = *static_cast<ReplyReader*>(reader);
    self.status_ = (self.*kRead)({bytes, n});
    return self.status_ ? n : 0;
  }

  // Callback of libcurl before it sends the request. libcurl would send it again if the server
  // closes a kept connection without a reply; a measured request must not be sent twice.
  static int CountRequest(void* reader, char*, char*, int, int) {
    return ++static_cast<ReplyReader*>(reader)->n_requests_ == 1 ? CURL_PREREQFUNC_OK
                                                                 : CURL_PREREQFUNC_ABORT;
  }

  // Returns the reply after libcurl ended with `code`. `detail`: libcurl's description of the
  // error.
  Result<HttpReply> Finish(CURLcode code, const char* detail) {
    if (!status_) return Unexpected(status_.error());
    if (code != CURLE_OK) return Unexpected(Describe(code, detail));
    if (!header_is_complete_) {
      return MakeError(ErrorCode::kIo,
                       "the server closed the connection in the header of its reply");
    }
    reply_.status = static_cast<int>(Information(CURLINFO_RESPONSE_CODE));
    const char* type = nullptr;
    curl_easy_getinfo(easy_, CURLINFO_CONTENT_TYPE, &type);
    reply_.content_type = type == nullptr ? "" : type;
    return std::move(reply_);
  }

 private:
  long Information(CURLINFO info) const {
    long value = 0;
    curl_easy_getinfo(easy_, info, &value);
    return value;
  }

  Error Describe(CURLcode code, const char* detail) const {
    const auto error = [](ErrorCode kind, std::string message) {
      return Error{.code = kind, .message = std::move(message)};
    };
    const int number = static_cast<int>(Information(CURLINFO_OS_ERRNO));
    const std::string reason = *detail != '\0' ? detail : curl_easy_strerror(code);
    switch (code) {
      case CURLE_COULDNT_CONNECT:
        return error(
            ErrorCode::kIo,
            "cannot connect: " + (number == 0 ? reason : std::generic_category().message(number)));
      case CURLE_OPERATION_TIMEDOUT:
        return error(ErrorCode::kIo, "timed out: " + reason);
      case CURLE_GOT_NOTHING:
      case CURLE_ABORTED_BY_CALLBACK:  // CountRequest
        return error(ErrorCode::kIo, "the server closed the connection without a reply");
      case CURLE_PARTIAL_FILE:
        return error(ErrorCode::kIo, "the server closed the connection in the body of its reply");
      case CURLE_UNSUPPORTED_PROTOCOL:
      case CURLE_WEIRD_SERVER_REPLY:
        return error(ErrorCode::kInvalidData, "the reply is not HTTP/1.1: " + reason);
      case CURLE_RECV_ERROR:
        // Without a system error, the encoding of chunks is invalid.
        if (number == 0) {
          return error(ErrorCode::kInvalidData, "the reply is not HTTP/1.1: " + reason);
        }
        return error(ErrorCode::kIo, "cannot receive: " + reason);
      default:
        return error(ErrorCode::kIo, reason);
    }
  }

  CURL* const easy_;
  const HttpClientLimits& limits_;
  const HttpPieceSink& sink_;
  HttpReply reply_;
  int n_requests_ = 0;
  std::size_t n_header_bytes_ = 0;
  bool header_is_complete_ = false;
  Status status_;
};

}  // namespace

Result<std::string> ParseServerUrl(std::string_view text) {
  const tl::unexpected<Error> bad =
      MakeError(ErrorCode::kInvalidArgument,
                "expected http://HOST[:PORT][/PREFIX] or https://..., found \"{}\"", text);
  const std::string copy(text);
  const std::unique_ptr<CURLU, CurlDelete> url(curl_url());
  if (HasLineBreak(text) || !url ||
      curl_url_set(url.get(), CURLUPART_URL, copy.c_str(), CURLU_DISALLOW_USER) != CURLUE_OK) {
    return bad;
  }
  const auto part = [&](CURLUPart kind) -> std::optional<std::string> {
    char* value = nullptr;
    if (curl_url_get(url.get(), kind, &value, 0) != CURLUE_OK) return std::nullopt;
    std::string found(value);
    curl_free(value);
    return found;
  };
  const std::optional<std::string> scheme = part(CURLUPART_SCHEME);
  std::optional<std::string> whole = part(CURLUPART_URL);
  const std::string_view rest = text.substr(std::min(text.find("//") + 2, text.size()));
  if (!whole || (scheme != "http" && scheme != "https") || part(CURLUPART_QUERY) ||
      part(CURLUPART_FRAGMENT) || part(CURLUPART_PORT) == "0" ||
      rest.substr(0, rest.find('/')).ends_with(':')) {
    return bad;
  }
  while (whole->ends_with('/')) {
    whole->pop_back();
  }
  return *whole;
}

HttpClient::HttpClient(std::string url, HttpClientLimits limits)
    : url_(std::move(url)),
      limits_(limits),
      multi_(curl_multi_init(), [](void* multi) { curl_multi_cleanup(multi); }) {}

void HttpClient::Cancel() {
  cancelled_ = true;
  curl_multi_wakeup(multi_.get());
}

Result<HttpReply> HttpClient::Send(const HttpCall& call, const HttpPieceSink& sink) {
  Result<HttpReply> reply = Exchange(call, sink);
  if (!reply) {
    return MakeError(reply.error().code, "{}: {} {}: {}", url_, call.method, call.path,
                     reply.error().message);
  }
  return reply;
}

Result<HttpReply> HttpClient::Exchange(const HttpCall& call, const HttpPieceSink& sink) {
  const Result<CurlFields> fields = MakeFields(call.fields);
  if (!fields) return Unexpected(fields.error());
  const std::unique_ptr<CURL, CurlDelete> easy(curl_easy_init());
  if (!easy || !multi_) return MakeError(ErrorCode::kIo, "libcurl could not be initialised");
  const auto set = [&](CURLoption option, auto value) {
    curl_easy_setopt(easy.get(), option, value);
  };
  ReplyReader reader(easy.get(), limits_, sink);
  std::array<char, CURL_ERROR_SIZE> detail = {};
  set(CURLOPT_URL, (url_ + call.path).c_str());
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_HTTPHEADER, fields->get());
  if (call.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  } else {
    if (!call.body.empty() || call.method == "POST") {
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(call.body.size()));
      set(CURLOPT_POSTFIELDS, call.body.c_str());
    }
    set(CURLOPT_CUSTOMREQUEST, call.method.c_str());
  }
  set(CURLOPT_NOPROXY, "*");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(limits_.connect_time.count()));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(limits_.request_time.count()));
  set(CURLOPT_ERRORBUFFER, detail.data());
  set(CURLOPT_PREREQFUNCTION, &ReplyReader::CountRequest);
  set(CURLOPT_PREREQDATA, &reader);
  set(CURLOPT_HEADERFUNCTION, &ReplyReader::Receive<&ReplyReader::ReadHeaderLine>);
  set(CURLOPT_HEADERDATA, &reader);
  set(CURLOPT_WRITEFUNCTION, &ReplyReader::Receive<&ReplyReader::ReadPiece>);
  set(CURLOPT_WRITEDATA, &reader);
  const Result<int> code = Perform(easy.get());
  if (!code) return Unexpected(code.error());
  return reader.Finish(static_cast<CURLcode>(*code), detail.data());
}

Result<int> HttpClient::Perform(void* easy) {
  constexpr int kLongestWaitMs = 60'000;  // libcurl's own timeouts end a wait earlier
  curl_multi_add_handle(multi_.get(), easy);
  int n_running = 1;
  CURLMcode failed = CURLM_OK;
  while (!cancelled_ && failed == CURLM_OK) {
    failed = curl_multi_perform(multi_.get(), &n_running);
    if (n_running == 0) break;
    if (failed == CURLM_OK) {
      failed = curl_multi_poll(multi_.get(), nullptr, 0, kLongestWaitMs, nullptr);
    }
  }
  int n_left = 0;
  const CURLMsg* message = curl_multi_info_read(multi_.get(), &n_left);
  const int code = message == nullptr ? CURLE_FAILED_INIT : message->data.result;
  curl_multi_remove_handle(multi_.get(), easy);
  if (cancelled_) return MakeError(ErrorCode::kUnavailable, "cancelled");
  if (failed != CURLM_OK) return MakeError(ErrorCode::kIo, "{}", curl_multi_strerror(failed));
  return code;
}

}  // namespace fathom::http
