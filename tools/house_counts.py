#!/usr/bin/env python3
"""Counts what a change of the house costs: the files in which one idea is written, the functions of
its seams, and the lines, files and comments of src.

usage: tools/house_counts.py [ROOT]

Prints each count with its limit, where there is one, and fails if a count is above its limit.
"""

import dataclasses
import pathlib
import re
import statistics
import sys

SUFFIXES = {".h", ".cc", ".cu"}
# Operations whose names are words that mean other things elsewhere.
COMMON_WORDS = {"Add", "Embed", "Linear", "Compress", "Route"}
NOT_OPERATIONS = {"BeginStep", "PlaceExperts", "BindExperts"}
TENSORS = ("wq_a", "wo_a", "wo_b", "q_norm", "kv_norm", "attn_sink", "weights_proj", "tid2eid")
# Rooms that a pass of the model goes through; others pause other things.
ROOMS_OF_A_PASS = {"model", "engine", "experts", "distributed", "planning", "runtime", "kv_cache"}
PAUSE = re.compile(r"paus|resum", re.IGNORECASE)
SEAMS = {"Backend": ("kernels/backend.h", 20),
         "LanguageModel": ("model/language_model.h", 11),
         "TensorParallel": ("model/tensor_parallel.h", 14)}
COMMENT = re.compile(r'(?<![:"])//(.*)')


@dataclasses.dataclass
class Count:
    name: str
    value: float
    limit: float | None = None
    detail: str = ""


def class_body(text, name):
    """Returns the lines of a class, from the one after its name to the brace that ends it."""
    begin = re.search(rf"^class {name}\b[^;]*\{{$", text, re.MULTILINE)
    if not begin:
        return ""
    end = text.index("\n};", begin.end())
    return text[begin.end():end]


def virtual_functions(body):
    return [line for line in re.findall(r"^\s+virtual\s+([^\n]*)", body, re.MULTILINE)
            if not line.startswith("~")]


def operations(backend):
    """The names of the operations in the class Backend: its functions after `--- Steps ---`."""
    steps = backend.partition("--- Steps ---")[2]
    names = re.findall(r"^  (?:virtual )?[\w:<>&]+ (\w+)\(", steps, re.MULTILINE)
    return sorted(set(names) - COMMON_WORDS - NOT_OPERATIONS - {"Run", "Compute"})


def files_with(files, pattern):
    return [name for name, text in files.items() if pattern.search(text)]


def most_files(files, words, name, limit, suffix=""):
    """Counts the word that stands in the most files."""
    places = {word: files_with(files, re.compile(rf"\b{word}(?:{suffix})?\b")) for word in words}
    word = max(places, key=lambda key: (len(places[key]), key), default="none")
    return Count(name, len(places.get(word, [])), limit, word)


def comments(files):
    lines = [(name, line, found.group(1)) for name, text in files.items()
             for line in text.splitlines() if (found := COMMENT.search(line))]

    def having(word):
        return sum(1 for _, _, comment in lines if re.search(rf"\b{word}\b", comment, re.IGNORECASE))

    fragments = sum(1 for name, line, _ in lines
                    if name.endswith(".h") and re.search(r"\S.*//\s*of ", line))
    return [Count("comment lines", len(lines)),
            Count('comment lines with "behind"', having("behind"), 40),
            Count('comment lines with "those"', having("those"), 40),
            Count('comments after code in headers that begin with "of"', fragments, 40)]


def count_house(files):
    """files: {path below src: text}. Returns all counts."""
    counts = []
    backend = class_body(files.get("kernels/backend.h", ""), "Backend")
    # Beside the files of the kernels, an operation needs one that calls it; it may have many.
    kernels = {name: text for name, text in files.items() if name.startswith("kernels/")}
    counts.append(most_files(kernels, operations(backend),
                             "files of kernels of the operation that is in most", 8, "Op"))
    counts.append(most_files(files, TENSORS, "files of the tensor that is in most", 3))
    passes = [name for name in files_with(files, PAUSE) if name.split("/")[0] in ROOMS_OF_A_PASS]
    counts.append(Count("files of a pass that pauses", len(passes), 20))
    for name, (paths, limit) in SEAMS.items():
        body = "".join(class_body(files.get(path, ""), name) for path in paths.split("|"))
        counts.append(Count(f"virtual functions of {name}", len(virtual_functions(body)), limit))
    lengths = [text.count("\n") for text in files.values()]
    counts.append(Count("files", len(lengths)))
    counts.append(Count("lines", sum(lengths)))
    counts.append(Count("lines of the longest file", max(lengths, default=0), 600,
                        max(files, key=lambda name: files[name].count("\n"), default="")))
    counts.append(Count("lines of the median file", statistics.median(lengths or [0]), 90))
    return counts + comments(files)


def main():
    source = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "src"
    files = {path.relative_to(source).as_posix(): path.read_text(encoding="utf-8")
             for path in sorted(source.rglob("*")) if path.suffix in SUFFIXES}
    is_met = bool(files)
    for count in count_house(files):
        limit = "" if count.limit is None else f"  at most {count.limit}"
        is_met &= count.limit is None or count.value <= count.limit
        print(f"{count.value:8g}{limit:14}  {count.name}"
              + (f" ({count.detail})" if count.detail else ""))
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
