// The arguments of a tool as forms of parameters (docs/spec/constrained.md 2.5).
#pragma once

#include <vector>

#include "constraint/schema/grammar_writer.h"
#include "constraint/schema/json_schema.h"
#include "constraint/schema/schema_reader.h"
#include "constraint/schema/schema_report.h"

namespace fathom {

// The forms of the root schema. Fails with kUnsatisfiableSchema if no object satisfies it.
std::vector<ToolArguments> WriteToolArguments(SchemaReader& reader, GrammarWriter& writer,
                                              SchemaReport& report);

}  // namespace fathom
