#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "json/json_writer.h"
#include "measure/constrain/constraint_check.h"

namespace fathom {
namespace {

constexpr int kMostKeyTrials = 20'000;  // keys that are tried in all objects of a value

// Writes a value as the constraint takes it. A key that does not fit behind the ones before it is
// inserted among them; where that finds no order, all orders are tried.
class KeyOrderSearch {
 public:
  explicit KeyOrderSearch(const Constraint& constraint) : constraint_(constraint) {}

  // Appends the value to `text` and moves `state` behind it; false if it does not fit.
  bool Write(const JsonValue& value, ConstraintState& state, std::string& text) {
    if (value.IsArray()) return WriteArray(value, state, text);
    if (!value.IsObject()) return Append(WriteJson(value), state, text);
    if (!Append("{", state, text)) return false;
    if (WriteByInsertion(value, state, text)) return true;
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

  // A member that is written, with the state in front of it.
  struct Written {
    std::size_t member = 0;
    std::string text;  // of the value
    ConstraintState before;
  };

  // Appends a member; its value as `known` if the constraint takes it so.
  bool WriteMember(const JsonValue& object, std::size_t member, bool is_first,
                   const std::string& known, Written& written, ConstraintState& state,
                   std::string& text) {
    if (++n_trials_ > kMostKeyTrials) return false;
    written = {.member = member, .text = known, .before = state};
    const std::string key = (is_first ? "" : ",") + WriteJson(JsonValue(object.key(member))) + ":";
    if (!Append(key, state, text)) return false;
    if (!known.empty() && Append(known, state, text)) return true;
    const std::size_t begin = text.size();
    if (!Write(object.items()[member], state, text)) return false;
    written.text = text.substr(begin);
    return true;
  }

  // Writes the members in front of `order[place]`, `member`, and then the others again. Changes
  // nothing if that does not fit.
  bool Insert(const JsonValue& object, std::size_t member, std::size_t place,
              std::vector<Written>& order, ConstraintState& state) {
    ConstraintState behind = place < order.size() ? order[place].before : state;
    std::string text;
    std::vector<Written> rest(order.size() - place + 1);
    if (!WriteMember(object, member, place == 0, "", rest[0], behind, text)) return false;
    for (std::size_t i = place; i < order.size(); ++i) {
      if (!WriteMember(object, order[i].member, false, order[i].text, rest[i - place + 1], behind,
                       text)) {
        return false;
      }
    }
    order.resize(place);
    std::move(rest.begin(), rest.end(), std::back_inserter(order));
    state = std::move(behind);
    return true;
  }

  bool WriteByInsertion(const JsonValue& object, ConstraintState& state, std::string& text) {
    std::vector<Written> order;
    ConstraintState behind = state;
    for (std::size_t i = 0; i < object.items().size(); ++i) {
      std::size_t place = order.size() + 1;
      do {
        if (place == 0) return false;
        --place;
      } while (!Insert(object, i, place, order, behind));
    }
    std::string members;
    for (std::size_t i = 0; i < order.size(); ++i) {
      members += (i > 0 ? "," : "") + WriteJson(JsonValue(object.key(order[i].member))) + ":" +
                 order[i].text;
    }
    std::string end;
    if (!Append("}", behind, end)) return false;
    state = std::move(behind);
    text += members + end;
    return true;
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
