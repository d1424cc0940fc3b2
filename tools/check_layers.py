#!/usr/bin/env python3
"""Checks what a compiler does not (docs/structure.md): who may include whom, hardware and
vendor headers in their box, no file too long, no exceptions, no environment variables, comments
that begin with what they document.

    tools/check_layers.py [ROOT]

Prints one line per violation and exits with 1 if there are any.
"""

import re
import sys
from pathlib import Path

# Which folders each folder of src/ may link, hence include. Arrows only point down: a folder may
# name only folders above its own line.
MAY_LINK = {
    "base": [],
    "json": ["base"],
    "checkpoint": ["base", "json"],
    "tokenizer": ["base", "json"],
    "chat": ["base", "json"],
    "sampling": ["base"],
    "kernels": ["base", "sampling"],
    "comm": ["base"],
    "kv_cache": ["base", "kernels"],
    "model": ["base", "checkpoint", "kernels", "kv_cache", "sampling"],
    "distributed": ["base", "checkpoint", "comm", "kernels", "kv_cache", "model"],
    "experts": ["base", "checkpoint", "comm", "distributed", "json", "kernels", "kv_cache", "model"],
    "constraint": ["base", "json", "tokenizer"],
    "engine": ["base", "comm", "constraint", "kv_cache", "model", "sampling"],
    "planning": ["base", "checkpoint", "comm", "distributed", "engine", "experts", "json", "kernels",
                 "kv_cache", "model"],
    "runtime": ["base", "chat", "checkpoint", "comm", "constraint", "distributed", "engine", "experts",
                "json", "kernels", "kv_cache", "model", "planning", "tokenizer"],
    "api": ["base", "chat", "constraint", "engine", "json", "tokenizer"],
    "http": ["base"],
    "server": ["api", "base", "chat", "constraint", "engine", "http", "json", "tokenizer"],
    "measure": ["base", "chat", "checkpoint", "comm", "constraint", "distributed", "experts", "http", "json",
                "kernels", "kv_cache", "model", "planning", "runtime", "tokenizer"],
    "cli": ["api", "base", "chat", "checkpoint", "comm", "constraint", "distributed", "engine",
            "experts", "http", "json", "kernels", "kv_cache", "measure", "model", "planning",
            "runtime", "server", "tokenizer"],
}

# Header (as written between the brackets), the files of src/ that may include it, its name.
BOXES = [
    (r"(cuda|cublas|cooperative_groups|mma\.h|hip/|hipblas|nccl|rccl)",
     r"kernels/(gpu|vendor)/|comm/nccl\.cc$", "CUDA and HIP"),
    (r"(\w*mmintrin|x86intrin|amxintrin|arm_neon|arm_sve)\.h$",
     r"kernels/cpu/vector/simd\w*\.h$", "vector intrinsics"),
    (r"boost/", r"http/http_request_parser\.cc$", "Boost"),
    (r"curl/", r"http/http_client\.cc$", "libcurl"),
    (r"(zlib|zstd\w*)\.h$", r"http/content_decoder\.cc$", "zlib and libzstd"),
    (r"CLI/", r"cli/options/parser\.cc$", "CLI11"),
    (r"mpi\.h$", r"comm/mpi\.cc$", "MPI"),
    (r"prometheus/", r"(engine/metrics|server/server_metrics)\.cc$", "prometheus-cpp"),
    (r"pcre2", r"tokenizer/pretokenizer\.cc$", "PCRE2"),
    (r"xxh", r"(base/seeded_hash|kv_cache/block_key|api/common/generated_turn_store)\.cc$", "xxHash"),
]

# Word of the source, the files of src/ where it is allowed, what to do instead.
WORDS = [
    (r"\bthrow\b", r"(?!)", "return a Result instead of throwing"),
    (r"\b(secure_)?getenv\b", r"cli/options/options\.cc$", "only cli/options/options.cc reads the environment"),
]

# Words of the source, comments included: pattern, the files of src/ where it is allowed, why.
# mtp is what users see as an option, a tensor of `fathom logits`, and names in checkpoints.
NAMES = [
    (r"(?i)(?<!docs/spec/)mtp",
     r"(model/draft|checkpoint|measure/slice|cli/options)/|cli/commands/logits\.cc$",
     "only model/draft knows which drafter there is"),
]

# A comment begins with the verb or with the noun that is documented (CONTRIBUTING.md, English).
COMMENT_FOLDERS = ["src", "tests", "bench", "tools", "fuzz", "examples", "cmake"]
COMMENT_SUFFIXES = {".h", ".cc", ".cu", ".js", ".py", ".cmake", ".txt"}
COMMENT = re.compile(r'\s*(//|#|""")')
RELATION = re.compile(r'\s*(?://|#|""")\s*(Of|What|Who|Whose|Those|The same)\b')

MAX_LINES = 600
COUNTED_FOLDERS = ["src", "tests", "bench", "tools", "fuzz"]
COUNTED_SUFFIXES = {".h", ".cc", ".cu", ".py", ".cmake", ".txt", ""}
SOURCE_SUFFIXES = {".h", ".cc", ".cu"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
COMMENT_OR_LITERAL = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r'|R"(?P<mark>[^()\s\\]*)\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])'", re.DOTALL)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def code_of(text):
    """The text without comments and literals, every line where it was."""
    return COMMENT_OR_LITERAL.sub(lambda match: " " + "\n" * match.group().count("\n"), text)


def read_links(cmake_text):
    """{name: [linked folders]} of the fathom_library() calls of one CMakeLists.txt."""
    links = {}
    without_comments = re.sub(r"#[^\n]*", "", cmake_text)
    for arguments in re.findall(r"\bfathom_library\s*\(([^)]*)\)", without_comments):
        name, *words = arguments.split()
        links[name] = []
        keyword = ""
        for word in words:
            if word.isupper():
                keyword = word
            elif keyword == "LINKS":
                links[name].append(word)
    return links


def check_links(folder, cmake_text):
    """The links of one folder, and what is wrong with them."""
    place = f"src/{folder}/CMakeLists.txt"
    if folder not in MAY_LINK:
        return [], [f"{place}: '{folder}' is not in the table of tools/check_layers.py"]
    libraries = read_links(cmake_text)
    if list(libraries) != [folder]:
        return [], [f"{place}: expected one fathom_library({folder} ...), found {list(libraries)}"]
    links = libraries[folder]
    allowed = ", ".join(MAY_LINK[folder]) or "nothing"
    return links, [f"{place}: {folder} must not link {link} (allowed: {allowed})"
                   for link in links if link not in MAY_LINK[folder]]


def check_includes(source, path, text, links):
    """Include lines of one file; path is relative to source, the src folder."""
    folder = path.parts[0]
    errors = []
    for match in INCLUDE.finditer(text):
        bracket, header = match.groups()
        place = f"src/{path}:{line_of(text, match.start())}"
        target = header.split("/")[0]
        if bracket == '"' and (target not in MAY_LINK or "/" not in header):
            errors.append(f'{place}: "{header}" is not a path from src/')
        elif bracket == "<" and (source / header).is_file():
            errors.append(f'{place}: <{header}> is ours: write "{header}"')
        elif bracket == '"' and target != folder and target not in links:
            errors.append(f"{place}: includes {header}, but LINKS of {folder} has no {target}")
        for pattern, box, name in BOXES:
            if re.match(pattern, header) and not re.match(box, path.as_posix()):
                errors.append(f"{place}: <{header}>: {name} may not be included here")
    return errors


def check_words(path, text):
    errors = [f"src/{path}: '{match.group()}': {advice}" for pattern, allowed, advice in NAMES
              if not re.match(allowed, path.as_posix())
              for match in re.finditer(pattern, path.as_posix())]
    return errors + [f"src/{path}:{line_of(searched, match.start())}: '{match.group()}': {advice}"
            for table, searched in ((WORDS, code_of(text)), (NAMES, text))
            for pattern, allowed, advice in table if not re.match(allowed, path.as_posix())
            for match in re.finditer(pattern, searched)]


def check_folder(source, folder):
    cmake = source / folder / "CMakeLists.txt"
    links, errors = check_links(folder, cmake.read_text() if cmake.exists() else "")
    for file in sorted((source / folder).rglob("*")):
        if file.suffix in SOURCE_SUFFIXES:
            path, text = file.relative_to(source), file.read_text()
            errors += check_includes(source, path, text, links) + check_words(path, text)
    return errors


def check_comments(root):
    """Comments whose first line begins with a relation to something that is not said."""
    errors = []
    for folder in COMMENT_FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in COMMENT_SUFFIXES or not file.is_file():
                continue
            in_comment = False
            for number, line in enumerate(file.read_text().splitlines(), 1):
                match = RELATION.match(line)
                if match and not in_comment:
                    errors.append(f"{file.relative_to(root)}:{number}: a comment begins with "
                                  f"'{match.group(1)}': begin with the verb or the noun")
                in_comment = COMMENT.match(line) is not None
    return errors


def check_lengths(root):
    errors = []
    for folder in COUNTED_FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            path = file.relative_to(root)
            if (file.suffix not in COUNTED_SUFFIXES or not file.is_file()
                    or path.parts[:2] == ("fuzz", "seeds")):
                continue
            count = len(file.read_bytes().splitlines())
            if count > MAX_LINES:
                errors.append(f"{path}: {count} lines, at most {MAX_LINES} are allowed")
    return errors


def check_project(root):
    """All violations below root, one line of text each."""
    source = root / "src"
    errors = []
    for folder in sorted(entry.name for entry in source.iterdir() if entry.is_dir()):
        errors += check_folder(source, folder)
    return errors + check_comments(root) + check_lengths(root)


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    errors = check_project(root)
    for error in errors:
        print(error)
    if not errors:
        print("Layers, boxes, comments and lengths are in order.")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
