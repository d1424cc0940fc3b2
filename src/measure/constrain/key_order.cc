#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "json/json_writer.h"
#include "measure/constrain/constraint_check.h"
#include "measure/constrain/key_order_search.h"

namespace fathom {
namespace {

// Members and items that are tried.
constexpr int kMostKeyTrials = 20'000;
constexpr int kMostTrialsAlone = 2'000;  // of objects for which insertion finds no order

// Writes a value as the constraint takes it, object by object: a key that does not fit behind the
// ones before it is inserted among them; where that finds no order, all orders of the object are
// tried. Quick, but the first order of an object is kept, and another one may be what the rest
// needs.
class KeyInsertion {
 public:
  explicit KeyInsertion(const Constraint& constraint)
      : constraint_(constraint), search_(constraint, kMostTrialsAlone) {}

  // Appends the value to `text` and moves `state` behind it; false if it does not fit.
  bool Write(const JsonValue& value, ConstraintState& state, std::string& text) {
    if (value.IsArray()) return WriteArray(value, state, text);
    if (!value.IsObject()) return Append(WriteJson(value), state, text);
    return WriteByInsertion(value, state, text) || search_.Write(value, state, text);
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
    std::string members;
    if (!Append("{", behind, members)) return false;
    for (std::size_t i = 0; i < object.items().size(); ++i) {
      std::size_t place = order.size() + 1;
      do {
        if (place == 0) return false;
        --place;
      } while (!Insert(object, i, place, order, behind));
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      members += (i > 0 ? "," : "") + WriteJson(JsonValue(object.key(order[i].member))) + ":" +
                 order[i].text;
    }
    if (!Append("}", behind, members)) return false;
    state = std::move(behind);
    text += members;
    return true;
  }

  const Constraint& constraint_;
  KeyOrderSearch search_;
  int n_trials_ = 0;
};

}  // namespace

OrderedText ConstraintChecker::Write(const JsonValue& value) const {
  OrderedText ordered;
  ConstraintState state = constraint_->Begin();
  KeyInsertion insertion(*constraint_);
  if (insertion.Write(value, state, ordered.text)) return ordered;
  ordered.text.clear();
  state = constraint_->Begin();
  KeyOrderSearch search(*constraint_, kMostKeyTrials);
  if (search.Write(value, state, ordered.text)) return ordered;
  return {.text = WriteJson(value), .is_decided = !search.is_used_up()};
}

}  // namespace fathom
