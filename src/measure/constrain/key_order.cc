#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "json/json_writer.h"
#include "measure/constrain/constraint_check.h"
#include "measure/constrain/key_order_search.h"

namespace fathom {
namespace {

// The most members and items that are tried.
constexpr int kMostKeyTrials = 20'000;
constexpr int kMostTrialsAlone = 2'000;  // for an object that insertion cannot order

// Writes a value as the constraint accepts it, object by object. A key that does not fit after the
// keys before it is inserted among them; if that finds no order, all orders of the object are
// tried. Quick, but the first order found for an object is kept, even if the rest of the value
// needs another.
class KeyInsertion {
 public:
  explicit KeyInsertion(const Constraint& constraint)
      : constraint_(constraint), search_(constraint, kMostTrialsAlone) {}

  // Appends the value to `text` and advances `state` past it. Returns false if the value does not
  // fit.
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

  // A member that is written, with the state before it.
  struct Written {
    std::size_t member = 0;
    std::string text;  // text of the value
    ConstraintState before;
  };

  // Appends a member. Appends its value as `known` if the constraint accepts that text.
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

  // Writes `member` before `order[place]`, and then the following members again. Changes nothing if
  // that does not fit.
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
