// SchemaDocument: the places of a schema, and where $ref leads (JSON Schema 2020-12, 8 and 9).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "constraint/schema/json_schema.h"
#include "constraint/schema/schema_report.h"
#include "json/json_value.h"

namespace fathom::constraint {

// A value inside the schema.
using PlaceId = std::uint32_t;

class SchemaDocument {
 public:
  // Finds all subschemas with their identifiers and anchors. `root` must outlive the document.
  // Fails with kTooLarge beyond the bounds of the options.
  SchemaDocument(const JsonValue& root, const JsonSchemaOptions& options, SchemaReport& report);

  static constexpr PlaceId kRoot = 0;
  const JsonValue& value(PlaceId place) const { return *places_[place].value; }
  std::string Pointer(PlaceId place) const;

  // The place of a member or an item of a place's value, which must be there.
  PlaceId Child(PlaceId parent, std::string_view key);
  PlaceId Child(PlaceId parent, std::size_t index);

  // The place that a reference at `from` names. nullopt: no place of this document; `remote` is
  // then true if the reference means another document.
  std::optional<PlaceId> Find(PlaceId from, std::string_view reference, bool& remote);
  // True for drafts up to 7, where $ref hides the keywords beside it.
  bool RefHidesSiblings(PlaceId place) const {
    return resources_[places_[place].resource].ref_hides_siblings;
  }
  // True if the reference beside an identifier means another schema by the rules of drafts up to 7,
  // and the schema does not say its draft.
  bool IsAmbiguous(PlaceId from, std::string_view reference);
  // True if the schema says that it is of draft 2019-09 or later.
  bool IsNewDraft(PlaceId place) const { return resources_[places_[place].resource].is_new_draft; }
  // True if items that `contains` matches are evaluated: in drafts after 2019-09.
  bool ContainsEvaluates(PlaceId place) const {
    return resources_[places_[place].resource].contains_evaluates;
  }
  // True if unevaluatedItems or unevaluatedProperties occurs.
  bool has_unevaluated() const { return has_unevaluated_; }
  // True if an anchor of this name is declared more than once, or as $dynamicAnchor of another
  // resource: $dynamicRef is not like $ref then.
  bool IsDynamic(std::string_view anchor) const;
  // True if $recursiveRef is like $ref: in draft 2019-09, where no schema within the root has an
  // identifier of its own.
  bool RecursesToRoot() const;

 private:
  struct Place {
    const JsonValue* value = nullptr;
    PlaceId parent = 0;
    std::string token{};  // the key or index in the parent
    std::uint32_t resource = 0;
    bool is_schema = false;
  };
  // A schema with an $id of its own, or the root.
  struct Resource {
    std::string uri{};
    PlaceId root = 0;
    bool ref_hides_siblings = false;
    bool is_new_draft = false;
    bool contains_evaluates = true;
    bool old_spelling = false;  // "id", as in draft 4
    std::map<std::string, PlaceId, std::less<>> anchors{};
  };

  bool CheckBounds(const JsonValue& root, const JsonSchemaOptions& options, SchemaReport& report);
  PlaceId Add(const JsonValue& value, PlaceId parent, std::string token);
  // Marks a value as a schema, if it can be one, with all schemas within it.
  void MarkSchemas(PlaceId place);
  void MarkSchema(PlaceId place, std::vector<PlaceId>& work);
  void Identify(PlaceId place);
  void VisitChildren(PlaceId place, std::vector<PlaceId>& work);
  std::optional<PlaceId> FindPointer(PlaceId root, std::string_view pointer);

  std::vector<Place> places_;
  std::unordered_map<const JsonValue*, PlaceId> place_of_;
  std::vector<Resource> resources_;
  std::map<std::string, std::uint32_t, std::less<>> resource_of_uri_;
  std::map<std::string, int, std::less<>> n_dynamic_anchors_;
  bool has_unevaluated_ = false;
};

}  // namespace fathom::constraint
