// RecordedExchange: adds the same fields to every response and records the sent data.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "http/http.h"
#include "server/served_request.h"

namespace fathom::server {

// Wraps `exchange`; both it and `record` must outlive it.
class RecordedExchange final : public HttpExchange {
 public:
  // keep_content: also records the content.
  RecordedExchange(HttpExchange& exchange, ServedRequest& record, bool keep_content)
      : exchange_(exchange), record_(record), keep_content_(keep_content) {}

  void AddField(std::string name, std::string value) {
    fields_.emplace_back(std::move(name), std::move(value));
  }
  HttpFields& fields() { return fields_; }

  void Send(HttpResponse response) override {
    Complete(&response);
    exchange_.Send(std::move(response));
  }
  bool StartStream(HttpResponse head) override {
    Complete(&head);
    return exchange_.StartStream(std::move(head));
  }
  bool Write(std::string_view piece) override {
    Keep(piece);
    return exchange_.Write(piece);
  }
  bool ClientIsGone() override { return exchange_.ClientIsGone(); }
  void DropSlowClient() override { exchange_.DropSlowClient(); }

 private:
  // Records the status of `response` and adds the fields.
  void Complete(HttpResponse* response) {
    record_.status = response->status;
    Keep(response->body);
    response->fields.insert(response->fields.end(), fields_.begin(), fields_.end());
  }

  void Keep(std::string_view content) {
    if (!keep_content_) return;
    if (!record_.answer) record_.answer.emplace();
    record_.answer->append(content);
  }

  HttpExchange& exchange_;
  ServedRequest& record_;
  const bool keep_content_;
  HttpFields fields_;
};

}  // namespace fathom::server
