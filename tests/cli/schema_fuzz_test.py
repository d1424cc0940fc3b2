#!/usr/bin/env python3
"""Compares what `fathom constrain` accepts with what the PyPI package jsonschema calls valid.

    schema_fuzz_test.py FATHOM                        what ./test runs
    schema_fuzz_test.py FATHOM --schemas 15000 --instances 47 --seed 2

Makes schemas of draft 2020-12 at random, of up to four levels and with all keywords that assert
something, and instances that lie near them. jsonschema computes with exact fractions here; its
errors are known by name below. An invalid instance that is accepted, and a schema that is called
unsatisfiable beside a valid instance, are faults. A valid instance that is refused is one, too,
unless docs/constraints.md says that such a text is not written, or fathom's search for an order of
the instance's keys ended at its bound, which is counted.

Exit code 77: the package is not installed.
"""
import argparse
import collections
import json
import random
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "testing"))
from pinned_packages import require  # noqa: E402

jsonschema = require("jsonschema")

PATTERNS = ["^a", "b$", "^[a-c]*$", "^(ab|c)+$", "[0-9]", "^.{2,3}$", "^x?y", "a.c", "^$"]
KEYS = ["a", "b", "c", "ab", "x1", "key"]
STRINGS = ["", "a", "b", "ab", "abc", "c", "x1", "12", "y", "a-c", "\u00e9\U0001f5fc", "cab"]
NUMBERS = ["0", "1", "2", "3", "-1", "7", "10", "12", "100", "0.5", "1.5", "-2.5", "0.1", "0.25",
           "12345678901", "0.30000000000000000001", "1000000000000000000000", "0.000001"]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]


class Number(float):
    """A number that is written as it is spelled."""

    def __new__(cls, text):
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __repr__(self):
        return self.text


def write(value):
    """JSON with the spellings of all numbers; json.dumps calls float.__repr__ itself."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{write(of)}" for key, of in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    return json.dumps(value)


class Maker:
    def __init__(self, seed):
        self.dice = random.Random(seed)

    def some(self, items, most=3):
        return self.dice.sample(items, self.dice.randint(1, min(most, len(items))))

    def maybe(self, chance=0.4):
        return self.dice.random() < chance

    def number(self):
        return Number(self.dice.choice(NUMBERS))

    def count(self):
        return self.dice.randint(0, 3)

    def value(self, depth=2):
        kind = self.dice.randint(0, 4 if depth == 0 else 6)
        if kind == 0:
            return None
        if kind == 1:
            return self.maybe(0.5)
        if kind in (2, 3):
            return self.number()
        if kind == 4:
            return self.dice.choice(STRINGS)
        if kind == 5:
            return [self.value(depth - 1) for _ in range(self.count())]
        return {key: self.value(depth - 1) for key in self.dice.sample(KEYS, self.count())}

    # --- Schemas ---

    def schema(self, depth):
        if depth == 0 and self.maybe(0.3):
            return self.dice.choice([True, True, {}, False])
        groups = [self.scalar, self.array, self.object, self.applicators, self.listed]
        made = {}
        for group in self.some(groups, 2):
            made.update(group(depth))
        if self.maybe():
            made["type"] = (self.dice.choice(TYPES) if self.maybe(0.7) else self.some(TYPES))
        return made

    def listed(self, depth):
        if self.maybe(0.5):
            return {"const": self.value(1)}
        return {"enum": [self.value(1) for _ in range(self.dice.randint(1, 3))]}

    def scalar(self, depth):
        made = {}
        for key in self.some(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], 2):
            made[key] = self.number()
        if self.maybe(0.3):
            made["multipleOf"] = Number(self.dice.choice(["1", "2", "3", "0.5", "0.1", "7", "2.5"]))
        if self.maybe(0.3):
            made["minLength"] = self.count()
        if self.maybe(0.3):
            made["maxLength"] = self.count()
        if self.maybe(0.3):
            made["pattern"] = self.dice.choice(PATTERNS)
        return made

    def array(self, depth):
        made = {}
        if self.maybe():
            made["prefixItems"] = [self.below(depth) for _ in range(self.dice.randint(1, 3))]
        if self.maybe():
            made["items"] = self.below(depth)
        if self.maybe():
            made["contains"] = self.below(depth)
            if self.maybe():
                made["minContains"] = self.count()
            if self.maybe():
                made["maxContains"] = self.count()
        if self.maybe(0.3):
            made["minItems"] = self.count()
        if self.maybe(0.3):
            made["maxItems"] = self.count()
        if self.maybe(0.15):
            made["uniqueItems"] = True
        if self.maybe(0.15):
            made["unevaluatedItems"] = self.below(depth)
        return made

    def object(self, depth):
        made = {}
        if self.maybe(0.7):
            made["properties"] = {key: self.below(depth) for key in self.some(KEYS)}
        if self.maybe():
            made["required"] = self.some(KEYS, 2)
        if self.maybe(0.3):
            made["additionalProperties"] = self.below(depth)
        if self.maybe(0.2):
            made["patternProperties"] = {self.dice.choice(PATTERNS): self.below(depth)}
        if self.maybe(0.15):
            made["propertyNames"] = {"pattern": self.dice.choice(PATTERNS)}
        if self.maybe(0.2):
            made["minProperties"] = self.count()
        if self.maybe(0.2):
            made["maxProperties"] = self.count()
        if self.maybe(0.15):
            made["dependentRequired"] = {self.dice.choice(KEYS): self.some(KEYS, 2)}
        if self.maybe(0.15):
            made["dependentSchemas"] = {self.dice.choice(KEYS): self.below(depth)}
        if self.maybe(0.1):
            made["unevaluatedProperties"] = self.below(depth)
        return made

    def applicators(self, depth):
        made = {}
        for key in self.some(["allOf", "anyOf", "oneOf", "not", "if"], 2):
            if key in ("allOf", "anyOf", "oneOf"):
                made[key] = [self.below(depth) for _ in range(self.dice.randint(1, 3))]
            elif key == "not":
                made[key] = self.below(depth)
            else:
                made[key] = self.below(depth)
                for branch in self.dice.sample(["then", "else"], self.dice.randint(0, 2)):
                    made[branch] = self.below(depth)
        return made

    def below(self, depth):
        if depth <= 0:
            return self.dice.choice([True, {"type": self.dice.choice(TYPES)}, {"const": self.value(0)},
                                     {"minimum": self.number()}, {"multipleOf": Number("2")}])
        return self.schema(depth - 1)

    # --- Instances near a schema ---

    def instance(self, schema, depth=4):
        if not isinstance(schema, dict) or depth == 0 or self.maybe(0.1):
            return self.value(1)
        parts = [schema] + [part for key in ("allOf", "anyOf", "oneOf") for part in schema.get(key, [])]
        parts += [schema[key] for key in ("if", "then", "else") if key in schema]
        part = self.dice.choice(parts)
        if part is not schema and self.maybe(0.7):
            return self.instance(part, depth - 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.dice.choice(schema["enum"])
        kinds = schema.get("type", self.dice.choice(TYPES))
        kind = kinds if isinstance(kinds, str) else self.dice.choice(kinds)
        if "properties" in schema and self.maybe(0.5):
            kind = "object"
        if ("items" in schema or "prefixItems" in schema or "contains" in schema) and self.maybe(0.5):
            kind = "array"
        return self.of_type(kind, schema, depth)

    def of_type(self, kind, schema, depth):
        if kind == "object":
            keys = set(schema.get("required", [])) | set(self.dice.sample(KEYS, self.count()))
            shown = schema.get("properties", {})
            keys |= {key for key in shown if self.maybe(0.6)}
            order = [key for key in shown if key in keys] + sorted(keys - shown.keys())
            other = schema.get("additionalProperties", True)
            return {key: self.instance(shown.get(key, other), depth - 1) for key in order}
        if kind == "array":
            prefix = schema.get("prefixItems", [])
            rest = schema.get("items", schema.get("contains", True))
            length = self.dice.randint(0, 4)
            return [self.instance(prefix[i] if i < len(prefix) else rest, depth - 1)
                    for i in range(length)]
        if kind in ("integer", "number"):
            near = [schema[key] for key in ("minimum", "maximum", "exclusiveMinimum",
                                            "exclusiveMaximum", "multipleOf") if key in schema]
            return self.dice.choice(near + [self.number()])
        if kind == "string":
            return self.dice.choice(STRINGS)
        return self.maybe(0.5) if kind == "boolean" else None


# --- The judge ---

def is_number(checker, value):
    return isinstance(value, (int, Fraction)) and not isinstance(value, bool)


def is_integer(checker, value):
    return is_number(checker, value) and Fraction(value).denominator == 1


Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
        {"number": is_number, "integer": is_integer}))


def exact(text):
    return json.loads(text, parse_float=Fraction)


def numbers_in(value):
    if isinstance(value, Number):
        yield value.text
    elif isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(part)


def is_documented(instance, schema):
    """True if docs/constraints.md says that the text of this valid instance is not written."""
    digits = [number.lstrip("-").partition(".") for number in numbers_in(instance)]
    is_long = any(len(fraction) > 6 or (fraction and len(whole) > 9) for whole, _, fraction in digits)
    text = write(schema)
    return is_long and ("multipleOf" in text or "not" in text or "integer" in text or "oneOf" in text
                        or '"if"' in text)


class Fuzz:
    def __init__(self, options):
        self.options = options
        self.counts = collections.Counter()
        self.faults = {}  # by number of the schema and kind: the first

    def cases(self):
        for number in range(self.options.schemas):
            maker = Maker(f"{self.options.seed} {number}")
            schema = maker.schema(maker.dice.randint(0, 4))
            yield number, schema, [maker.instance(schema) for _ in range(self.options.instances)]

    def judge(self, number, schema, instances, report):
        self.counts[report["compile"]] += 1
        validator = Validator(exact(write(schema)))
        valid = [validator.is_valid(exact(write(instance))) for instance in instances]
        if report["compile"] == "unsatisfiable":
            for instance, is_valid in zip(instances, valid):
                if is_valid and not is_documented(instance, schema):
                    self.fault(number, "unsatisfiable, with a valid instance", schema, instance)
            return
        if report["compile"] != "ok":
            return
        for instance, is_valid, result in zip(instances, valid, report["results"]):
            kind = f"{'valid' if is_valid else 'invalid'} {'accepted' if result['accepted'] else 'refused'}"
            if kind == "valid refused" and is_documented(instance, schema):
                kind = "valid refused as documented"
            elif kind == "valid refused" and result.get("undecided"):
                kind = "valid, no order of keys found"
            self.counts[kind] += 1
            if kind in ("valid refused", "invalid accepted"):
                self.fault(number, kind, schema, instance)

    def fault(self, number, kind, schema, instance):
        self.faults.setdefault(
            (number, kind), f"{kind}: schema {number}: {write(schema)}\n  {write(instance)}")

    def run_some(self, cases):
        with tempfile.TemporaryDirectory() as folder:
            for number, schema, instances in cases:
                tests = ",".join('{"data":%s,"valid":true}' % write(instance) for instance in instances)
                Path(folder, f"{number}.json").write_text(
                    '{"schema":%s,"tests":[%s]}' % (write(schema), tests), encoding="utf-8")
            run = subprocess.run([self.options.fathom, "constrain", "--bench", folder, "--strict",
                                  "--json"], capture_output=True, text=True)
            reports = {}
            for line in run.stdout.splitlines():
                report = json.loads(line)
                reports[int(report["file"].removesuffix(".json"))] = report
        for number, schema, instances in cases:
            if number not in reports:
                self.fault(number, f"no report: {run.stderr[-300:]}", schema, None)
            else:
                self.judge(number, schema, instances, reports[number])

    def run(self):
        some = []
        for case in self.cases():
            some.append(case)
            if len(some) == 500:
                self.run_some(some)
                some = []
        self.run_some(some)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fathom")
    parser.add_argument("--schemas", type=int, default=600)
    parser.add_argument("--instances", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    fuzz = Fuzz(parser.parse_args())
    fuzz.run()
    for kind, count in sorted(fuzz.counts.items()):
        print(f"{count:8} {kind}")
    for fault in list(fuzz.faults.values())[:40]:
        print(fault, file=sys.stderr)
    print(f"{len(fuzz.faults)} schemas with faults")
    return 1 if fuzz.faults else 0


if __name__ == "__main__":
    sys.exit(main())
