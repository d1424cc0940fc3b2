#include "api/chat_format.h"

#include "api/response_json.h"

namespace fathom {
namespace {

class ChatFormat final : public AnswerFormat {
 public:
  std::string Whole(const ApiAnswer& answer) override {
    return ChatCompletionJson(answer.head(), answer.choices(), answer.call().answers,
                              answer.usage(), *answer.model().tokenizer);
  }
  void Begin(const ApiAnswer&, std::string*) override {}
  void Add(const ApiAnswer&, const AnswerPiece&, std::string*) override {}
  void End(const ApiAnswer&, std::string*) override {}
  void Fail(const ApiAnswer&, const ApiError&, std::string*) override {}
};

}  // namespace

std::unique_ptr<AnswerFormat> MakeChatFormat() { return std::make_unique<ChatFormat>(); }

}  // namespace fathom
