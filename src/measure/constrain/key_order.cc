#include <string>
#include <utility>
#include <vector>

#include "json/json_writer.h"
#include "measure/constrain/constraint_check.h"

namespace fathom {
namespace {

constexpr int kMostKeyTrials = 20'000;  // keys that are tried in all objects of a value

// Writes a value as the constraint takes it; keys that do not fit are tried later.
class KeyOrderSearch {
 public:
  explicit KeyOrderSearch(const Constraint& constraint) : constraint_(constraint) {}

  // Appends the value to `text` and moves `state` behind it; false if it does not fit.
  bool Write(const JsonValue& value, ConstraintState& state, std::string& text) {
    if (value.IsArray()) return WriteArray(value, state, text);
    if (!value.IsObject()) return Append(WriteJson(value), state, text);
    if (!Append("{", state, text)) return false;
    std::vector<char> is_written(value.items().size(), 0);
    return WriteMembers(value, is_written, 0, state, text);
  }

 private:
  bool Append(const std::string& piece, ConstraintState& state, std::string& text) {
    Result<ConstraintState> next = constraint_.AdvanceText(state, piece);
    if (!next) return false;
    state = *std::move(next);
    text += piece;
    return true;
  }

  bool WriteArray(const JsonValue& value, ConstraintState& state, std::string& text) {
    if (!Append("[", state, text)) return false;
    for (std::size_t i = 0; i < value.items().size(); ++i) {
      if (i > 0 && !Append(",", state, text)) return false;
      if (!Write(value.items()[i], state, text)) return false;
    }
    return Append("]", state, text);
  }

  // Writes the members that are not written yet, and the end of the object. The depth of calls is
  // the number of members.
  bool WriteMembers(const JsonValue& object, std::vector<char>& is_written, std::size_t n_written,
                    ConstraintState& state, std::string& text) {
    if (n_written == is_written.size()) return Append("}", state, text);
    for (std::size_t i = 0; i < is_written.size(); ++i) {
      if (is_written[i] != 0) continue;
      if (++n_trials_ > kMostKeyTrials) return false;
      ConstraintState behind = state;
      const std::size_t size = text.size();
      const std::string key =
          (n_written > 0 ? "," : "") + WriteJson(JsonValue(object.key(i))) + ":";
      is_written[i] = 1;
      if (Append(key, behind, text) && Write(object.items()[i], behind, text) &&
          WriteMembers(object, is_written, n_written + 1, behind, text)) {
        state = std::move(behind);
        return true;
      }
      is_written[i] = 0;
      text.resize(size);
    }
    return false;
  }

  const Constraint& constraint_;
  int n_trials_ = 0;
};

}  // namespace

std::string ConstraintChecker::Write(const JsonValue& value) const {
  ConstraintState state = constraint_->Begin();
  std::string text;
  KeyOrderSearch search(*constraint_);
  return search.Write(value, state, text) ? text : WriteJson(value);
}

}  // namespace fathom
