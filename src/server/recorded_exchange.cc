#include "server/recorded_exchange.h"

#include <utility>

namespace fathom {

RecordedExchange::RecordedExchange(HttpExchange& exchange, ServedRequest& record, bool keep_content)
    : exchange_(exchange), record_(record), keep_content_(keep_content) {}

void RecordedExchange::AddField(std::string name, std::string value) {
  fields_.emplace_back(std::move(name), std::move(value));
}

void RecordedExchange::Complete(HttpResponse* response) {
  record_.status = response->status;
  Keep(response->body);
  response->fields.insert(response->fields.end(), fields_.begin(), fields_.end());
}

void RecordedExchange::Keep(std::string_view content) {
  if (!keep_content_) return;
  if (!record_.answer) record_.answer.emplace();
  record_.answer->append(content);
}

void RecordedExchange::Send(HttpResponse response) {
  Complete(&response);
  exchange_.Send(std::move(response));
}

bool RecordedExchange::StartStream(HttpResponse head) {
  Complete(&head);
  return exchange_.StartStream(std::move(head));
}

bool RecordedExchange::Write(std::string_view piece) {
  Keep(piece);
  return exchange_.Write(piece);
}

}  // namespace fathom
