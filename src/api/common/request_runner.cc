#include "api/common/request_runner.h"

#include <utility>

namespace fathom {
namespace {

class RunningStream final : public RunningRequest {
 public:
  explicit RunningStream(TokenStream stream) : stream_(std::move(stream)) {}
  std::optional<bool> NextFor(std::chrono::milliseconds timeout, StreamEvent& event) override {
    return stream_.NextFor(timeout, event);
  }
  RequestStats stats() const override { return stream_.stats(); }
  void Cancel() override { stream_.Cancel(); }

 private:
  TokenStream stream_;
};

}  // namespace

Result<std::unique_ptr<RunningRequest>> EngineRunner::Submit(Request request) {
  Result<TokenStream> stream = engine_.Submit(std::move(request));
  if (!stream) return Unexpected(stream.error());
  return std::make_unique<RunningStream>(*std::move(stream));
}

}  // namespace fathom
