#include "server/recorded_exchange.h"

#include <utility>

namespace fathom {

RecordedExchange::RecordedExchange(HttpExchange& exchange, ServedRequest& record, bool keep_content)
    : exchange_(exchange), record_(record), keep_content_(keep_content) {}

void RecordedExchange::AddField(std::string name, std::string value) {
  fields_.emplace_back(std::move(name), std::move(value));
}

HttpResponse RecordedExchange::WithFields(const HttpResponse& response) const {
  HttpResponse full = response;
  full.fields.insert(full.fields.end(), fields_.begin(), fields_.end());
  return full;
}

void RecordedExchange::Keep(std::string_view content) {
  if (!keep_content_) return;
  if (!record_.answer) record_.answer.emplace();
  record_.answer->append(content);
}

void RecordedExchange::Send(const HttpResponse& response) {
  record_.status = response.status;
  Keep(response.body);
  exchange_.Send(WithFields(response));
}

bool RecordedExchange::StartStream(const HttpResponse& head) {
  record_.status = head.status;
  Keep(head.body);
  return exchange_.StartStream(WithFields(head));
}

bool RecordedExchange::Write(std::string_view piece) {
  Keep(piece);
  return exchange_.Write(piece);
}

}  // namespace fathom
