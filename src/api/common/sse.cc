#include "api/common/sse.h"

#include <nlohmann/json.hpp>

namespace fathom {

std::string DumpJson(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void AppendSse(const nlohmann::ordered_json& json, std::string* out) {
  out->append("data: ").append(DumpJson(json)).append("\n\n");
}

void AppendSse(std::string_view event, const nlohmann::ordered_json& json, std::string* out) {
  out->append("event: ").append(event).append("\n");
  AppendSse(json, out);
}

}  // namespace fathom
