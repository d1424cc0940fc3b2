#!/usr/bin/env bash
# deepseek-recipe 0.2.0 sorts the parallel calls of a turn, and their results, by id as text.
#
# A history whose assistant called "c9" and then "c10" becomes a prompt in which "c10" comes first:
# the model reads an order in which it did not write. Clients that number their calls meet it from the
# tenth call on, and a prompt rendered from such a history is not the text that the model generated,
# so that no cache of prefixes finds it. The encoder that the checkpoints bring along keeps the order.
#
# Seen with: deepseek-recipe 0.2.0 of PyPI. Needs python3 with venv.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check deepseek-recipe==0.2.0

"$work/venv/bin/python" - <<'CODE'
import json
import sys

from deepseek_recipe import ChatCompletionRequest, ConversionOptions, DeepseekV4Encoding


def prompt(ids):
    calls = [{"id": id, "type": "function", "function": {"name": "look", "arguments": json.dumps({"at": id})}}
             for id in ids]
    results = [{"role": "tool", "tool_call_id": id, "content": "result of " + id} for id in ids]
    tool = {"type": "function", "function": {
        "name": "look", "description": "Looks.",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}}
    body = {"model": "DeepSeek-V4-Pro", "tools": [tool], "messages": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": "", "reasoning_content": "I look.", "tool_calls": calls},
        *results]}
    request = ChatCompletionRequest(json.dumps(body)).convert(ConversionOptions())
    return DeepseekV4Encoding().render_conversation(request.conversation).prompt


for ids, expected in ((["c8", "c9"], ["c8", "c9"]), (["c9", "c10"], ["c10", "c9"])):
    text = prompt(ids)
    shown = sorted(ids, key=lambda id: text.index(f'string="true">{id}<'))
    answered = sorted(ids, key=lambda id: text.index("result of " + id))
    print(f"called {ids}: shown {shown}, results {answered}")
    if shown != expected or answered != expected:
        sys.exit("Changed: expected the order " + str(expected))
print("As found: the calls c9 and c10 are shown as c10 and c9.")
CODE
