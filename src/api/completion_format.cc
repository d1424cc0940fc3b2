#include "api/completion_format.h"

#include "api/response_json.h"

namespace fathom {
namespace {

class CompletionFormat final : public AnswerFormat {
 public:
  std::string Whole(const ApiAnswer& answer) override {
    return CompletionJson(answer.head(), answer.choices(), answer.usage(),
                          *answer.model().tokenizer);
  }
  void Begin(const ApiAnswer&, std::string*) override {}
  void Add(const ApiAnswer&, const AnswerPiece&, std::string*) override {}
  void End(const ApiAnswer&, std::string*) override {}
  void Fail(const ApiAnswer&, const ApiError&, std::string*) override {}
};

}  // namespace

std::unique_ptr<AnswerFormat> MakeCompletionFormat() {
  return std::make_unique<CompletionFormat>();
}

}  // namespace fathom
