#include "constraint/schema/schema_document.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/parse_text.h"
#include "constraint/schema/keywords.h"
#include "constraint/schema/uri_reference.h"
#include "json/json_pointer.h"

namespace fathom::constraint {
namespace {

bool IsSchemaValue(const JsonValue& value) {
  return value.IsObject() || value.kind() == JsonValue::Kind::kBool;
}

bool IsOldDraft(std::string_view uri) {
  return uri.find("draft-04") != std::string_view::npos ||
         uri.find("draft-06") != std::string_view::npos ||
         uri.find("draft-07") != std::string_view::npos;
}

}  // namespace

SchemaDocument::SchemaDocument(const JsonValue& root, const JsonSchemaOptions& options,
                               SchemaReport& report) {
  resources_.emplace_back();
  resource_of_uri_.emplace("", 0);
  if (!CheckBounds(root, options, report)) {
    places_.push_back({.value = &root});
    return;
  }
  Add(root, 0, "");
  MarkSchemas(kRoot);
}

bool SchemaDocument::CheckBounds(const JsonValue& root, const JsonSchemaOptions& options,
                                 SchemaReport& report) {
  std::vector<std::pair<const JsonValue*, int>> work = {{&root, 1}};
  std::size_t n_bytes = 0;
  std::size_t n_properties = 0;
  std::size_t n_enum_values = 0;
  while (!work.empty()) {
    const auto [value, depth] = work.back();
    work.pop_back();
    n_bytes += value->text().size() + 2;
    if (depth > options.max_depth) {
      report.Fail(ConstraintErrorCode::kTooLarge, "", "",
                  fmt::format("expected at most {} nested values", options.max_depth));
      return false;
    }
    for (std::size_t i = 0; i < value->items().size(); ++i) {
      const JsonValue& item = value->items()[i];
      work.emplace_back(&item, depth + 1);
      if (!value->IsObject()) continue;
      n_bytes += value->key(i).size() + 3;
      if (value->key(i) == "properties") n_properties += item.items().size();
      if (value->key(i) == "enum") n_enum_values += item.items().size();
    }
  }
  const auto check = [&](std::size_t found, std::size_t most, std::string_view what) {
    if (found <= most) return true;
    report.Fail(ConstraintErrorCode::kTooLarge, "", "",
                fmt::format("expected at most {} {}, found {}", most, what, found));
    return false;
  };
  return check(n_bytes, options.max_bytes, "bytes") &&
         check(n_properties, options.max_properties, "properties") &&
         check(n_enum_values, options.max_enum_values, "enum values");
}

PlaceId SchemaDocument::Add(const JsonValue& value, PlaceId parent, std::string token) {
  const auto [found, is_new] = place_of_.try_emplace(&value, static_cast<PlaceId>(places_.size()));
  if (is_new) {
    const std::uint32_t resource = places_.empty() ? 0 : places_[parent].resource;
    places_.push_back(
        {.value = &value, .parent = parent, .token = std::move(token), .resource = resource});
  }
  return found->second;
}

void SchemaDocument::MarkSchemas(PlaceId place) {
  std::vector<PlaceId> work;
  MarkSchema(place, work);
  while (!work.empty()) {
    const PlaceId next = work.back();
    work.pop_back();
    VisitChildren(next, work);
  }
}

void SchemaDocument::MarkSchema(PlaceId place, std::vector<PlaceId>& work) {
  if (places_[place].is_schema || !IsSchemaValue(value(place))) return;
  places_[place].is_schema = true;
  Identify(place);
  work.push_back(place);
}

void SchemaDocument::Identify(PlaceId place) {
  const JsonValue& schema = value(place);
  std::string_view id = schema.FindText("$id");
  const bool hidden = schema.Find("$ref") != nullptr && RefHidesSiblings(place);
  const bool old_spelling = id.empty();
  if (old_spelling) id = schema.FindText("id");
  if (!id.empty() && !hidden && id[0] == '#') {
    resources_[places_[place].resource].anchors.emplace(id.substr(1), place);
  } else if (!id.empty() && !hidden) {
    Resource resource{.uri = ResolveUri(resources_[places_[place].resource].uri, id),
                      .root = place,
                      .ref_hides_siblings = RefHidesSiblings(place),
                      .is_new_draft = IsNewDraft(place),
                      .contains_evaluates = ContainsEvaluates(place),
                      .old_spelling = old_spelling};
    const auto index = static_cast<std::uint32_t>(resources_.size());
    resource_of_uri_.try_emplace(resource.uri, index);
    resources_.push_back(std::move(resource));
    places_[place].resource = index;
  }
  Resource& resource = resources_[places_[place].resource];
  if (const std::string_view draft = schema.FindText("$schema"); !draft.empty()) {
    resource.ref_hides_siblings = IsOldDraft(draft);
    const bool is_2019 = draft.find("2019-09") != std::string_view::npos;
    resource.is_new_draft = is_2019 || draft.find("2020-12") != std::string_view::npos;
    resource.contains_evaluates = !is_2019;
  }
  for (const std::string_view keyword : {"$anchor", "$dynamicAnchor"}) {
    const std::string_view anchor = schema.FindText(keyword);
    if (anchor.empty()) continue;
    resource.anchors.emplace(anchor, place);
    if (keyword == "$dynamicAnchor") ++n_dynamic_anchors_[std::string(anchor)];
  }
}

void SchemaDocument::VisitChildren(PlaceId place, std::vector<PlaceId>& work) {
  const JsonValue& schema = value(place);
  if (!schema.IsObject()) return;
  for (std::size_t i = 0; i < schema.items().size(); ++i) {
    const JsonValue& below = schema.items()[i];
    const SubschemaKind kind = KindOfSubschemas(schema.key(i));
    if (kind == SubschemaKind::kNone) continue;
    has_unevaluated_ |= schema.key(i).starts_with("unevaluated");
    const PlaceId child = Add(below, place, std::string(schema.key(i)));
    if (kind == SubschemaKind::kOne || (kind == SubschemaKind::kOneOrList && !below.IsArray())) {
      MarkSchema(child, work);
      continue;
    }
    for (std::size_t j = 0; j < below.items().size(); ++j) {
      if (!IsSchemaValue(below.items()[j])) continue;
      MarkSchema(Add(below.items()[j], child,
                     below.IsObject() ? std::string(below.key(j)) : std::to_string(j)),
                 work);
    }
  }
}

std::string SchemaDocument::Pointer(PlaceId place) const {
  std::vector<PlaceId> path;
  for (; place != kRoot; place = places_[place].parent) path.push_back(place);
  std::string pointer;
  for (auto part = path.rbegin(); part != path.rend(); ++part) {
    pointer = PointerTo(pointer, places_[*part].token);
  }
  return pointer;
}

PlaceId SchemaDocument::Child(PlaceId parent, std::string_view key) {
  return Add(*value(parent).Find(key), parent, std::string(key));
}

PlaceId SchemaDocument::Child(PlaceId parent, std::size_t index) {
  const JsonValue& container = value(parent);
  return Add(container.items()[index], parent,
             container.IsObject() ? std::string(container.key(index)) : std::to_string(index));
}

std::optional<PlaceId> SchemaDocument::FindPointer(PlaceId root, std::string_view pointer) {
  PlaceId place = root;
  while (!pointer.empty()) {
    pointer.remove_prefix(1);
    const std::size_t end = std::min(pointer.find('/'), pointer.size());
    const std::string token = UnescapedPointerStep(pointer.substr(0, end));
    pointer.remove_prefix(end);
    const JsonValue& container = value(place);
    if (container.IsArray()) {
      const std::optional<std::size_t> index = ParseNumber<std::size_t>(token);
      if (!index || *index >= container.items().size()) return std::nullopt;
      place = Child(place, *index);
    } else {
      const JsonValue* const child = container.Find(token);
      if (child == nullptr) return std::nullopt;
      place = Add(*child, place, token);
    }
    if (pointer.empty()) MarkSchemas(place);
  }
  return place;
}

std::optional<PlaceId> SchemaDocument::Find(PlaceId from, std::string_view reference,
                                            bool& remote) {
  remote = false;
  std::uint32_t resource = places_[from].resource;
  const std::string_view uri = WithoutFragment(reference);
  if (!uri.empty()) {
    const auto found = resource_of_uri_.find(ResolveUri(resources_[resource].uri, uri));
    if (found == resource_of_uri_.end()) {
      remote = true;
      return std::nullopt;
    }
    resource = found->second;
  }
  const std::string fragment = UriFragment(reference);
  if (fragment.empty()) return resources_[resource].root;
  if (fragment[0] == '/') {
    const std::optional<PlaceId> found = FindPointer(resources_[resource].root, fragment);
    if (found || !resources_[resource].old_spelling) return found;
    return FindPointer(kRoot, fragment);  // the member "id" was no identifier
  }
  const auto anchor = resources_[resource].anchors.find(fragment);
  if (anchor == resources_[resource].anchors.end()) return std::nullopt;
  return anchor->second;
}

bool SchemaDocument::IsAmbiguous(PlaceId from, std::string_view reference) {
  const JsonValue& schema = value(from);
  const bool identified = !schema.FindText("$id").empty() || !schema.FindText("id").empty();
  if (!identified || from == kRoot || IsNewDraft(from) || RefHidesSiblings(from)) return false;
  bool remote = false;
  return Find(from, reference, remote) != Find(places_[from].parent, reference, remote);
}

bool SchemaDocument::IsDynamic(std::string_view anchor) const {
  const auto found = n_dynamic_anchors_.find(anchor);
  return found != n_dynamic_anchors_.end() && found->second > 1;
}

bool SchemaDocument::RecursesToRoot() const {
  const JsonValue& root = value(kRoot);
  const JsonValue* draft = root.IsObject() ? root.Find("$schema") : nullptr;
  return resources_.size() == 1 && draft != nullptr && draft->IsString() &&
         draft->text().find("draft/2019-09/") != std::string_view::npos;
}

}  // namespace fathom::constraint
