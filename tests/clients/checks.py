"""Checks that the scripts of the client programs share.

matrix.py runs each script in an environment that has its client, with the server's address in
FATHOM_URL and the settings that it prints for clients in FATHOM_RECIPES. The model of that server is the embedded one: it writes tales whatever it is asked, so a
check is about the protocol and never about sense. To let it call a tool, a check forces the call.
"""

import asyncio
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import time
import traceback
import urllib.request
from pathlib import Path

URL = os.environ.get("FATHOM_URL", "http://127.0.0.1:8000")
MODEL = "fairy"
QUESTION = "Tell me of the king and his three sons."
TOO_LONG = "once upon a time " * 8000  # more than the context of the server that matrix.py starts
SHORT = 24  # tokens of an answer; the tales of the model go on for longer

# The ids of <｜end▁of▁sentence｜> and "/". With this bias the model ends where it can, and a forced
# call where it can, behind "<": without arguments, if the parameters all have defaults.
END_AT_ONCE = {"1": 100, "50": 100}
# The ids of <｜end▁of▁sentence｜>, of a double quote, of "}" and of "{": texts in JSON are empty,
# objects end where they can, and no call comes in place of one.
END_JSON = {"1": 100, "37": 100, "128": 50, "126": 40}

_checks = []


def check(function):
    """Has main() run this function; its name, as words, is what was checked."""
    _checks.append(function)
    return function


def raises(kind, call, *words):
    """Calls, expects an exception of this kind that contains the words, and returns it."""
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), f"{word!r} is not in {error}"
        return error
    raise AssertionError(f"expected {kind.__name__}, found no error")


def recipe(heading):
    """The settings that the server printed under this heading (serve --recipes)."""
    parts = re.split(r"^# (.*)\n", os.environ["FATHOM_RECIPES"], flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2]))[heading].strip()


def recipe_command(heading):
    """The command line of a recipe: its variables {name: value}, and its words."""
    words = shlex.split(recipe(heading).replace("\\\n", ""))
    n_variables = next(i for i, word in enumerate(words) if "=" not in word)
    return dict(word.split("=", 1) for word in words[:n_variables]), words[n_variables:]


def equal(found, expected):
    assert found == expected, f"expected {expected!r}, found {found!r}"


def command(program, *arguments, folder=None, expect=0, text=None, **environment):
    """Runs a program of the client's environment. Returns what it wrote, on both outputs."""
    run = subprocess.run(
        [Path(sys.executable).parent / program, *arguments], cwd=folder, input=text or "",
        env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=300, check=False)
    assert run.returncode == expect, f"{program} exited with {run.returncode}:\n{run.stdout}"
    return run.stdout


def post(path, body):
    """Asks the server itself, for answers to compare with."""
    request = urllib.request.Request(URL + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def main():
    """Runs the checks of a script. Prints a line for each and exits with 1 if one fails."""
    failed = False
    loop = asyncio.Runner()  # one for all: clients keep connections open
    for function in _checks:
        start = time.monotonic()
        try:
            if inspect.iscoroutinefunction(function):
                loop.run(function())
            else:
                function()
            result = "ok"
        except Exception:  # also of kinds that a client made up
            traceback.print_exc()
            result = "FAILED"
            failed = True
        name = function.__name__.replace("_", " ")
        # On a line of its own, even after a client that did not end its last one.
        print(f"\n{result}: {name} ({time.monotonic() - start:.1f} s)", flush=True)
    sys.exit(failed)
