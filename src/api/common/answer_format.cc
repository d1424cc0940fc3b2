#include "api/common/answer_format.h"

#include "json/json_writer.h"

namespace fathom {

void AppendSse(const JsonValue& json, std::string* out) {
  out->append("data: ").append(WriteJson(json)).append("\n\n");
}

void AppendSse(std::string_view event, const JsonValue& json, std::string* out) {
  out->append("event: ").append(event).append("\n");
  AppendSse(json, out);
}

}  // namespace fathom
