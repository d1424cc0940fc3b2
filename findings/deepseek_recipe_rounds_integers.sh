#!/usr/bin/env bash
# deepseek-recipe 0.2.0 rounds integers of more than 64 bits in the calls and schemas of a prompt.
#
# A call whose argument is 123456789012345678901234567890 is shown to the model as
# 1.2345678901234568e+29, with other digits and another type. Ids and balances of that size are common
# in tools for ledgers and chains. The encoder that the checkpoints bring along, in Python, keeps every
# digit, and so must an engine that shows the model its own calls again.
#
# Seen with: deepseek-recipe 0.2.0 of PyPI. Needs python3 with venv.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check deepseek-recipe==0.2.0

"$work/venv/bin/python" - <<'CODE'
import json
import re
import sys

from deepseek_recipe import ChatCompletionRequest, ConversionOptions, DeepseekV4Encoding


def shown(number):
    tool = {"type": "function", "function": {
        "name": "pay", "description": "Pays.",
        "parameters": {"type": "object", "properties": {"to": {"type": "integer"}}}}}
    call = {"id": "c1", "type": "function",
            "function": {"name": "pay", "arguments": json.dumps({"to": number})}}
    body = {"model": "DeepSeek-V4-Pro", "tools": [tool], "messages": [
        {"role": "user", "content": "Pay."},
        {"role": "assistant", "content": "", "reasoning_content": "I pay.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "paid"}]}
    request = ChatCompletionRequest(json.dumps(body)).convert(ConversionOptions())
    text = DeepseekV4Encoding().render_conversation(request.conversation).prompt
    return re.search(r'name="to" string="false">([^<]*)<', text).group(1)


for number, expected in ((2**64 - 1, "18446744073709551615"), (2**64, "1.8446744073709552e+19"),
                         (123456789012345678901234567890, "1.2345678901234568e+29")):
    print(f"{number}: shown as {shown(number)}")
    if shown(number) != expected:
        sys.exit("Changed: expected " + expected)
print("As found: integers from 2^64 on are shown as floating-point numbers.")
CODE
