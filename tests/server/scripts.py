"""Texts that a model writes in tests of the server: all behind the prompt's <think>."""

CALL = ('<｜DSML｜invoke name="get_weather">\n'
        '<｜DSML｜parameter name="city" string="true">{city}</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="days" string="false">{days}</｜DSML｜parameter>\n'
        '</｜DSML｜invoke>')


def calls(*arguments):
    return ("\n\n<｜DSML｜tool_calls>\n" +
            "\n".join(CALL.format(city=city, days=days) for city, days in arguments) +
            "\n</｜DSML｜tool_calls>")


FORCED_OPENING = '\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="get_weather">\n'
PATCH = "*** Begin \"Patch\"\n" + "".join(f"+line {n}\n" for n in range(20))

SCRIPTS = {
    "plain": {"text": "Paris is the capital — 首都 🗼."},
    "thinking": {"text": "The user asks.\nI know.</think>Paris."},
    "tool": {"text": "I need the weather.</think>Let me look." + calls(('Par"is\n🗼', 3))},
    "parallel": {"text": "</think>" + calls(("Paris", 1), ("Rome", 2))},
    "forced": {"text": "Let me see.</think>" + calls(("Oslo", 7))},
    "turn": {"text": "So.</think>Done.<｜User｜>Thanks!<｜Assistant｜>More."},
    "markers": {"text": "</think>A<｜fim▁hole｜>B<｜end▁of▁sentence｜>C."},
    "refuses": {"text": "So.</think>" + FORCED_OPENING + "I would rather not."},
    "patch": {"text": "</think>\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"apply_patch\">\n"
                      '<｜DSML｜parameter name="input" string="true">' + PATCH +
                      "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"},
    "shell": {"text": "</think>\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"shell\">\n"
                      '<｜DSML｜parameter name="commands" string="false">["ls -l", "pwd"]'
                      "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"},
    "broken": {"text": "</think>Look: <｜DSML｜tool_calls>\nnothing that can be read"},
    "slow": {"text": "</think>" + "word " * 400, "delay_ms": 20},
    "late": {"text": "</think>Finally.", "first_delay_ms": 1500},
    "length": {"text": "</think>This is cut", "finish": "length"},
    "thinking_length": {"text": "This thought is cut", "finish": "length"},
    "error": {"text": "</think>Half of it", "finish": "error"},
    "full": {"refuse": "queue_full"},
    "json": {"text": 'So.</think>{"city": "Paris", "sunny": true}'},
    "json_length": {"text": 'So.</think>{"city": "Par', "finish": "length"},
    "count": {"text": "</think>one two three four five six"},
}

WEATHER_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
