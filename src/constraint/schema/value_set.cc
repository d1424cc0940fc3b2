#include "constraint/schema/value_set.h"

namespace fathom {
namespace {

std::size_t BytesOf(const NumberShape& shape) {
  return sizeof(shape) + (shape.multiples.size() + shape.non_multiples.size()) * sizeof(Decimal);
}

std::size_t BytesOf(const StringShape& shape) {
  return sizeof(shape) + shape.tests.size() * sizeof(StringPredicate);
}

std::size_t BytesOf(const ArrayShape& shape) {
  return sizeof(shape) + shape.prefix.size() * sizeof(GoalId) +
         shape.contains.size() * sizeof(ContainsShape);
}

std::size_t BytesOf(const ObjectShape& shape) {
  std::size_t n = sizeof(shape) + shape.properties.size() * sizeof(PropertyShape) +
                  shape.evaluated_names.size() * sizeof(std::string) +
                  shape.evaluated_patterns.size() * sizeof(StringPredicate);
  for (const PropertyShape& property : shape.properties) n += property.name.size();
  for (const KeyLayer& layer : shape.layers) {
    n += sizeof(layer) + layer.patterns.size() * sizeof(KeyPattern);
  }
  for (const std::vector<StringShape>& names : shape.names) {
    for (const StringShape& name : names) n += BytesOf(name);
  }
  for (const MemberDemand& demand : shape.demands) {
    n += sizeof(demand) + demand.names.size() * sizeof(std::string);
  }
  return n;
}

}  // namespace

std::size_t BytesOf(const ValueSet& values) {
  std::size_t n = sizeof(values);
  for (const NumberShape& shape : values.numbers) n += BytesOf(shape);
  for (const StringShape& shape : values.strings) n += BytesOf(shape);
  for (const ArrayShape& shape : values.arrays) n += BytesOf(shape);
  for (const ObjectShape& shape : values.objects) n += BytesOf(shape);
  return n;
}

}  // namespace fathom
