#!/usr/bin/env python3
"""Checks answers of the embedded model with a validator that others have written.

  answers_check.py --answers 200                      what ./test runs: schemas and tools of
                                                      answer_schemas.json
  answers_check.py --answers 5000 --max-schemas 200 --suite DIR --schemas DIR

Three kinds of requests in turn, at temperatures 0, 1 and 1.5, to a server with 16 sequences:

  schema    response_format with a strict schema. The content must be JSON without duplicate keys,
            and valid for the PyPI package jsonschema with its format checks.
  call      tool_choice "required", with the tools, and with the schemas of objects as tools. The
            arguments of each call must be JSON and valid for the parameters of the tool it names.
  auto      tool_choice "auto", half of them with a bias towards calls. No markup of calls may stand
            in the content; calls are checked like those above (of tools that are not strict, only
            their JSON and names). Reasoning is free.

--suite: a folder of the JSON Schema Test Suite (tests/draft2020-12), whose groups each have a
schema. --schemas: a folder of files {"schema": ...}. Schemas that the server refuses with a 400 are
counted, and left out. Answers that max_tokens cut are counted by themselves: only their markup is
checked, and that the arguments of their last call are the beginning of JSON and those of the others
JSON. Ends with 1 if an answer is wrong, and prints the wrong ones.

It needs the packages of tests/requirements.txt, and the server in build/release.
"""

import argparse
import collections
import http.client
import itertools
import json
import math
import random
import re
import sys
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jiter  # of the package openai
import jsonschema

from server_process import FathomServer, metric

MARKUP = re.compile("</?[|｜]{0,2}DSML|｜DSML｜")
TEMPERATURES = (0, 1, 1.5)
MAX_SCHEMA_BYTES = 6000  # a longer one costs more time in the prompt than in the answer
WRONG_FORMATS = {"relative-json-pointer"}  # the package refuses 104: a zero within the number
ANNOTATIONS = {"idn-email", "idn-hostname"}  # formats that are not asserted (docs/constraints.md)
TOPICS = ("a king", "the sea", "numbers", "a fox & a hen", "weather <today>", "größe", "code", "x")


class Wrong(Exception):
    pass


def read_json(text):
    """The value of a JSON text; Wrong for what readers do not agree on."""
    def members(pairs):
        if len({key for key, _ in pairs}) < len(pairs):
            raise Wrong("duplicate keys")
        return dict(pairs)

    def refuse(name):
        raise Wrong(f"{name} is not JSON")

    def finite(number):
        value = float(number)
        if not math.isfinite(value):
            raise Wrong(f"{number} is no double")
        return value

    try:
        return json.loads(text, object_pairs_hook=members, parse_constant=refuse,
                          parse_float=finite)
    except ValueError as error:
        raise Wrong(f"no JSON: {error}") from error


def read_beginning(text):
    """Wrong for a text that no JSON begins with."""
    try:
        # Within an array, so that nothing may follow the value; a text may be empty.
        jiter.from_json(b"[" + text.encode(), partial_mode="trailing-strings")
    except ValueError as error:
        raise Wrong(f"no beginning of JSON: {error}") from error


def validator_of(schema):
    default = jsonschema.Draft202012Validator
    kind = jsonschema.validators.validator_for(schema, default=default)
    # Copied: a checker that is made of names takes the checks of other drafts (time).
    formats = jsonschema.FormatChecker(formats=())
    formats.checkers = {name: check for name, check in kind.FORMAT_CHECKER.checkers.items()
                        if name not in WRONG_FORMATS | ANNOTATIONS}
    return kind(schema, format_checker=formats)


def validate(validator, value):
    error = next(iter(validator.iter_errors(value)), None)
    if error is not None:
        raise Wrong(f"{error.json_path} fails {error.validator}: {error.message[:200]}")


def patterns_of(schema):
    """All regular expressions in a schema, wherever they may stand."""
    if isinstance(schema, list):
        return [pattern for part in schema for pattern in patterns_of(part)]
    if not isinstance(schema, dict):
        return []
    own = [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
    return own + list(schema.get("patternProperties") or []) + patterns_of(list(schema.values()))


def is_validatable(schema):
    """Whether the validator itself can read the schema: no other files, no patterns that Python's
    `re` lacks."""
    try:
        for pattern in patterns_of(schema):
            re.compile(pattern)
        list(validator_of(schema).iter_errors({"a": [1, "x", {"b": None}]}))
        list(validator_of(schema).iter_errors([{}, 1.5]))
        return True
    except Exception:  # the package raises many kinds
        return False


class Case:
    """A form that some requests ask for."""

    def __init__(self, kind, schema=None, tools=None):
        self.kind = kind
        self.schema = schema
        self.validator = None if schema is None else validator_of(schema)
        self.tools = {tool["name"]: tool for tool in tools or []}
        self.validators = {name: validator_of(tool["parameters"])
                           for name, tool in self.tools.items()}

    def body(self, number, bias):
        topic = TOPICS[number % len(TOPICS)]
        body = {"messages": [{"role": "user", "content": f"Answer {number}: {topic}"}],
                "temperature": TEMPERATURES[number % len(TEMPERATURES)], "seed": number,
                "enable_thinking": number % 10 == 9, "reasoning_budget": 20}
        if self.schema is not None:
            body["response_format"] = {"type": "json_schema", "json_schema": {
                "name": "answer", "strict": True, "schema": self.schema}}
        if self.tools:
            body["tools"] = [{"type": "function", "function": tool}
                             for tool in self.tools.values()]
            body["tool_choice"] = "required" if self.kind == "call" else "auto"
            if self.kind == "auto" and number % 4 < 2:
                body["logit_bias"] = bias
        return body

    def check(self, choice):
        """Raises Wrong; returns whether the answer is whole."""
        message = choice["message"]
        content = message["content"] or ""
        found = MARKUP.search(content) if self.tools else None
        if found:
            raise Wrong(f"markup in the content: {content[max(0, found.start() - 40):][:120]!r}")
        calls = message.get("tool_calls") or []
        if choice["finish_reason"] == "length":
            *ended, last = [call["function"]["arguments"] for call in calls] or [""]
            for arguments in ended:
                read_json(arguments)
            read_beginning(last)
            return False
        if self.kind == "schema":
            validate(self.validator, read_json(content))
        elif self.kind == "call" and (not calls or content):
            raise Wrong("no calls, or content beside them")
        if (choice["finish_reason"] == "tool_calls") != bool(calls):
            raise Wrong(f"{len(calls)} calls, finished by {choice['finish_reason']}")
        for call in calls:
            self.check_call(call["function"])
        return True

    def check_call(self, function):
        if function["name"] not in self.tools:
            raise Wrong(f"a call of {function['name']!r}")
        arguments = read_json(function["arguments"])
        tool = self.tools[function["name"]]
        if not isinstance(arguments, dict):
            raise Wrong("arguments that are no object")
        if tool.get("strict"):
            validate(self.validators[function["name"]], arguments)
        elif tool["parameters"].get("properties"):
            others = arguments.keys() - tool["parameters"]["properties"].keys()
            if others:
                raise Wrong(f"parameters {others}")


def schemas_of(options):
    """The schemas of all sources, some of each, in the same order every time."""
    own = json.loads(Path(__file__).with_name("answer_schemas.json").read_text("utf-8"))
    found = []
    for path in sorted(Path(options.suite).rglob("*.json")) if options.suite else []:
        found += [group["schema"] for group in json.loads(path.read_text("utf-8"))]
    for path in sorted(Path(options.schemas).glob("*.json")) if options.schemas else []:
        found.append(json.loads(path.read_text("utf-8"))["schema"])
    found = [schema for schema in found
             if len(json.dumps(schema)) <= MAX_SCHEMA_BYTES and is_validatable(schema)]
    random.Random(options.seed).shuffle(found)
    return (own["schemas"] + found)[:options.max_schemas], own["toolsets"]


class Check:
    def __init__(self, options, url):
        self.options = options
        self.host = urllib.parse.urlsplit(url).netloc
        self.lock = threading.Lock()
        self.local = threading.local()
        self.counts = collections.Counter()
        self.refused = collections.Counter()
        self.wrong = []
        self.used = set()
        # Makes calls likely, wherever they may begin, and values with the beginnings of tags.
        self.bias = {str(self.token("<")): 18, str(self.token("｜DSML｜")): 100}

    def post(self, path, body):
        if not hasattr(self.local, "connection"):
            self.local.connection = http.client.HTTPConnection(self.host, timeout=600)
        self.local.connection.request("POST", path, json.dumps(body),
                                      {"Content-Type": "application/json"})
        response = self.local.connection.getresponse()
        return response.status, json.loads(response.read())

    def token(self, text):
        return self.post("/tokenize", {"prompt": text, "add_special_tokens": False})[1]["tokens"][-1]

    def is_accepted(self, case):
        """Whether the server enforces the case: asks for one token."""
        status, answer = self.post("/v1/chat/completions", {**case.body(0, {}), "max_tokens": 1})
        if status == 200:
            return True
        with self.lock:
            self.refused[answer["error"].get("code") or f"status {status}"] += 1
            if status != 400:
                self.wrong.append((case, 0, f"status {status}: {answer}", None))
        return False

    def ask(self, number, case):
        status, answer = self.post("/v1/chat/completions", {
            **case.body(number, self.bias), "max_tokens": self.options.max_tokens})
        try:
            if status != 200:
                raise Wrong(f"status {status}")
            is_whole = case.check(answer["choices"][0])
        except Exception as wrong:  # the validator raises many kinds
            with self.lock:
                self.wrong.append((case, number, repr(wrong), answer))
            return
        with self.lock:
            self.counts[case.kind, "whole" if is_whole else "cut"] += 1
            self.counts[case.kind, "tokens"] += answer["usage"]["completion_tokens"]
            if answer["choices"][0]["message"].get("tool_calls"):
                self.counts[case.kind, "with calls"] += 1
            self.used.add(id(case))

    def run(self):
        schemas, toolsets = schemas_of(self.options)
        with ThreadPoolExecutor(self.options.streams) as pool:
            cases = [Case("schema", schema=schema) for schema in schemas]
            cases = [case for case, taken in zip(cases, pool.map(self.is_accepted, cases)) if taken]
            calls = [Case("call", tools=[{"name": "answer", "strict": True, "parameters": schema}])
                     for schema in schemas if isinstance(schema, dict)
                     and schema.get("type") == "object"]
            calls = [case for case, taken in zip(calls, pool.map(self.is_accepted, calls)) if taken]
            groups = [cases, [Case("call", tools=tools) for tools in toolsets] + calls,
                      [Case("auto", tools=tools) for tools in toolsets]]
            groups = [itertools.cycle(group) for group, share in zip(groups, self.options.shares)
                      for _ in range(share)]
            numbers = range(self.options.answers)
            list(pool.map(self.ask, numbers, (next(groups[n % len(groups)]) for n in numbers)))


def report(check, seconds, url):
    for kind in ("schema", "call", "auto"):
        counts = {name: check.counts[kind, name] for name in ("whole", "cut", "with calls", "tokens")}
        print(f"{kind:6} " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    print(f"{len(check.used)} schemas and sets of tools; refused schemas: {dict(check.refused)}")
    print(f"{seconds:.0f} s, {metric(url, 'fathom_constraint_late_masks_total'):.0f} late masks; "
          f"wrong answers: {len(check.wrong)}")
    for case, number, reason, answer in check.wrong[:20]:
        asked = case.schema if case.tools == {} else list(case.tools.values())
        print(f"WRONG {case.kind} {number}: {reason}\n  {json.dumps(asked)[:600]}\n"
              f"  {json.dumps(answer, ensure_ascii=False)[:1200]}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=200)
    parser.add_argument("--max-schemas", type=int, default=60)
    parser.add_argument("--max-tokens", type=int, default=120)
    parser.add_argument("--shares", type=int, nargs=3, default=(4, 1, 1),
                        metavar=("SCHEMA", "CALL", "AUTO"), help="of the kinds among the requests")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--suite", metavar="DIR")
    parser.add_argument("--schemas", metavar="DIR")
    parser.add_argument("--serve", nargs=argparse.REMAINDER, default=[],
                        help="more arguments for fathom serve, like --draft 4; the last option")
    options = parser.parse_args()
    server = FathomServer("--max-sequences", str(options.streams), "--log-requests", "off",
                          *options.serve)
    try:
        start = time.monotonic()
        check = Check(options, server.url)
        check.run()
        report(check, time.monotonic() - start, server.url)
    finally:
        code = server.stop()
        server.kill()
    return 1 if check.wrong or code != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
