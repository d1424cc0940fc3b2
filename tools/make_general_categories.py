#!/usr/bin/env python3
"""Writes src/constraint/readers/general_category_runs.h: the general category of each code point, from the
Unicode data of this Python. Run it again to move to another version of Unicode."""

import pathlib
import unicodedata

# By letter: 'A' + index, then 'a' + index - 26.
CATEGORIES = ("Cn Cc Cf Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp "
              "Zs").split()
TARGET = pathlib.Path(__file__).parent.parent / "src/constraint/readers/general_category_runs.h"
HEADER = """// Written by tools/make_general_categories.py.
#pragma once

#include <string_view>

namespace fathom {{

// The categories, in the order of their letters in the runs.
inline constexpr std::string_view kGeneralCategories[] = {{
{names}}};

// Unicode {version}. Code points from 0 on, by runs of one category: its letter ('A' ... 'Z', then
// 'a' ...), and the length of the run unless it is 1.
inline constexpr std::string_view kGeneralCategoryRuns =
{lines};

}}  // namespace fathom
"""


def letter(category):
    index = CATEGORIES.index(category)
    return chr(ord("A") + index) if index < 26 else chr(ord("a") + index - 26)


def runs():
    text = ""
    begin = 0
    for code_point in range(0x110000 + 1):
        category = unicodedata.category(chr(begin))
        if code_point < 0x110000 and unicodedata.category(chr(code_point)) == category:
            continue
        length = code_point - begin
        text += letter(category) + (str(length) if length > 1 else "")
        begin = code_point
        if code_point == 0x110000:
            break
    return text


def main():
    text = runs()
    width = 92
    lines = "\n".join(f'    "{text[i:i + width]}"' for i in range(0, len(text), width))
    quoted = [f'"{name}"' for name in CATEGORIES]
    names = ",\n".join("    " + ", ".join(quoted[i:i + 10]) for i in range(0, len(quoted), 10))
    TARGET.write_text(HEADER.format(names=names, version=unicodedata.unidata_version, lines=lines))


if __name__ == "__main__":
    main()
