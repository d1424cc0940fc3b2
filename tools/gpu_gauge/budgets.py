"""Compares measures of loops with budgets.json."""

import json
from pathlib import Path

FILE = Path(__file__).resolve().parent / "budgets.json"
COMPILERS = {"sm": "nvcc", "gf": "clang"}  # by the first letters of an architecture

# Measures of a loop, which are divided by its numbers, and of its kernel.
PER_NUMBER = {"slots": "issue slots", "integer": "slots of the integer pipe",
              "instructions": "instructions", "vector": "vector instructions", "loads": "loads"}
PER_KERNEL = {"registers": "registers", "shared bytes": "bytes of shared memory"}


def load(path=FILE):
    """{"compilers": {...}, "loops": {architecture: {title: measures}}}."""
    return json.loads(path.read_text()) if path.exists() else {"compilers": {}, "loops": {}}


def save(budgets, path=FILE):
    """Writes one line per loop."""
    architectures = []
    for architecture, loops in budgets["loops"].items():
        entries = [f'      "{title}": {json.dumps(found)}' for title, found in loops.items()]
        architectures.append(f'    "{architecture}": {{\n' + ",\n".join(entries) + "\n    }")
    path.write_text(f'{{\n  "compilers": {json.dumps(budgets["compilers"])},\n  "loops": {{\n'
                    + ",\n".join(architectures) + "\n  }\n}\n")


def update(budgets, result):
    """Replaces the budgets of the architectures that were measured."""
    return {"compilers": budgets["compilers"] | result.compilers,
            "loops": dict(sorted((budgets["loops"] | result.loops).items()))}


def compiler_of(architecture):
    return COMPILERS[architecture[:2]]


def compare_loop(loop, architecture, budget, found):
    """Lines about what grew, and about what shrank."""
    values = [(f"{unit} per {loop.number}", budget[name] / budget["numbers"],
               found[name] / found["numbers"])
              for name, unit in PER_NUMBER.items() if name in budget]
    values += [(unit, budget[name], found[name])
               for name, unit in PER_KERNEL.items() if name in budget]
    place = f"{loop.title}, {architecture}"
    return ([f"{place}: expected at most {most:.4g} {unit}, found {value:.4g}"
             for unit, most, value in values if value > most],
            [f"{place}: the budget of {most:.4g} {unit} can be lowered to {value:.4g}"
             for unit, most, value in values if value < most])


def compare(budgets, result):
    """Lines that are failures, and lines that are not."""
    failures, notes = [], []
    for architecture, measured in result.loops.items():
        compiler = compiler_of(architecture)
        expected, found = budgets["compilers"].get(compiler), result.compilers[compiler]
        if expected is not None and found != expected:
            notes += [f"{architecture}: the budgets are for {compiler} {expected} and are not "
                      f"compared with code of {compiler} {found}."]
            notes += result.errors[architecture] + lines_of(architecture, measured)
        else:
            grown, shrunk = compare_architecture(
                architecture, budgets["loops"].get(architecture, {}), measured, result.wanted)
            failures += result.errors[architecture] + grown
            notes += shrunk
    return failures, notes


def compare_architecture(architecture, budgets, measured, loops):
    """Lines that are failures, and lines that are not, of loops that were found."""
    titles = {loop.title for loop in loops}
    failures = [f"{title}, {architecture}: there is a budget and no such loop in "
                "tools/gpu_gauge/loops.py" for title in budgets if title not in titles]
    notes = []
    for loop in loops:
        if loop.title in measured and loop.title not in budgets:
            failures.append(f"{loop.title}, {architecture}: expected a budget, found none")
        elif loop.title in measured:
            grown, shrunk = compare_loop(loop, architecture, budgets[loop.title],
                                         measured[loop.title])
            failures += grown
            notes += shrunk
    return failures, notes


def lines_of(architecture, measured):
    """The measures of an architecture, a line for each loop."""
    return [f"{title}, {architecture}: " + ", ".join(
        [f"{found[name] / found['numbers']:.4g} {unit}" for name, unit in PER_NUMBER.items()
         if name in found] + [f"{found[name]} {unit}" for name, unit in PER_KERNEL.items()
                              if name in found]) for title, found in measured.items()]
