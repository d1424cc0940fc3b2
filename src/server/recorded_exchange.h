// RecordedExchange: adds the same fields to every response and records what was sent.
#pragma once

#include <string>
#include <string_view>

#include "http/http.h"
#include "server/served_request.h"

namespace fathom {

// Wraps `exchange`; both it and `record` must outlive it.
class RecordedExchange final : public HttpExchange {
 public:
  // keep_content: records the content too.
  RecordedExchange(HttpExchange& exchange, ServedRequest& record, bool keep_content);

  void AddField(std::string name, std::string value);
  HttpFields& fields() { return fields_; }

  void Send(HttpResponse response) override;
  bool StartStream(HttpResponse head) override;
  bool Write(std::string_view piece) override;
  bool ClientIsGone() override { return exchange_.ClientIsGone(); }

 private:
  // Records the status of `response` and adds the fields.
  void Complete(HttpResponse* response);
  void Keep(std::string_view content);

  HttpExchange& exchange_;
  ServedRequest& record_;
  const bool keep_content_;
  HttpFields fields_;
};

}  // namespace fathom
