// FakeExchange: an exchange that keeps what is sent, and whose client goes away on demand.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "http/http.h"

namespace fathom::testing {

struct FakeExchange final : HttpExchange {
  void Send(HttpResponse response) override {
    ++n_answers;
    head = std::move(response);
    text = head.body;
  }
  bool StartStream(HttpResponse response) override {
    ++n_answers;
    is_stream = true;
    head = std::move(response);
    return Write(head.body);
  }
  bool Write(std::string_view piece) override {
    ++n_writes;
    text += piece;
    return !ClientIsGone() && n_writes < writes_until_gone;
  }
  bool ClientIsGone() override { return ++n_looks > looks_until_gone; }
  void DropSlowClient() override { may_be_slow = false; }

  std::string Field(std::string_view name) const {
    return std::string(HttpRequest{.fields = head.fields}.Field(name));
  }

  static constexpr std::size_t kNever = static_cast<std::size_t>(-1);
  std::size_t writes_until_gone = kNever;
  std::size_t looks_until_gone = kNever;
  std::size_t n_answers = 0;
  std::size_t n_writes = 0;
  std::size_t n_looks = 0;
  bool is_stream = false;
  bool may_be_slow = true;
  HttpResponse head;
  std::string text;
};

}  // namespace fathom::testing
