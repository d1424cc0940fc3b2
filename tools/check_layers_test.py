"""Tests of check_layers.py: each builds a small source tree and expects exactly its violations."""

import tempfile
import unittest
from pathlib import Path

import check_layers


class CheckLayersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("src/base/CMakeLists.txt", "fathom_library(base SOURCES check.cc)")
        self.write("src/base/check.h", "#include <string>\n")

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def write_folder(self, name, links):
        self.write(f"src/{name}/CMakeLists.txt",
                   f"fathom_library({name}  # LINKS cli\n  SOURCES a.cc\n  LINKS {links}\n"
                   "  LIBRARIES fmt::fmt)\n")

    def expect(self, *fragments):
        errors = check_layers.check_project(self.root)
        self.assertEqual(len(errors), len(fragments), errors)
        for error, fragment in zip(errors, fragments):
            self.assertIn(fragment, error)

    def test_the_table_only_points_down(self):
        seen = []
        for folder, links in check_layers.MAY_LINK.items():
            self.assertLessEqual(set(links), set(seen), folder)
            seen.append(folder)

    def test_an_include_covered_by_links_passes(self):
        self.write_folder("kernels", "base")
        self.write("src/kernels/cpu/vector/simd.h", '#include <immintrin.h>\n#include "base/check.h"\n'
                   '#include "kernels/backend.h"\n')
        self.expect()

    def test_an_include_without_a_link(self):
        self.write_folder("tokenizer", "")
        self.write("src/tokenizer/bpe.cc", '// bytes\n#include "base/check.h"\n')
        self.expect("src/tokenizer/bpe.cc:2: includes base/check.h, but LINKS of tokenizer")

    def test_a_link_of_a_link_does_not_count(self):
        self.write_folder("kv_cache", "kernels")
        self.write("src/kv_cache/layout.h", '#include "base/check.h"\n')
        self.expect("src/kv_cache/layout.h:1: includes base/check.h")

    def test_a_link_upwards(self):
        self.write_folder("kernels", "base model")
        self.expect("kernels must not link model (allowed: base, sampling)")

    def test_an_unknown_folder(self):
        self.write_folder("util", "base")
        self.expect("'util' is not in the table")

    def test_a_folder_without_a_library(self):
        self.write("src/chat/encoder.cc", "")
        self.expect("src/chat/CMakeLists.txt: expected one fathom_library(chat ...), found []")

    def test_an_include_that_is_not_a_path_from_src(self):
        self.write("src/base/check.cc", '#include "check.h"\n#include "../base/check.h"\n')
        self.expect('"check.h" is not a path from src/', '"../base/check.h" is not a path')

    def test_our_header_in_angle_brackets(self):
        self.write_folder("tokenizer", "")
        self.write("src/tokenizer/bpe.cc", "#include <base/check.h>\n")
        self.expect("<base/check.h> is ours")

    def test_vendor_headers_outside_their_box(self):
        headers = ["cuda_runtime.h", "hip/hip_runtime.h", "nccl.h", "immintrin.h", "avx2intrin.h",
                   "boost/beast.hpp", "mpi.h", "pcre2.h", "CLI/CLI.hpp"]
        self.write("src/base/check.cc", "".join(f"#include <{header}>\n" for header in headers))
        headers.remove("avx2intrin.h")  # a compiler's own header, never included by hand
        self.expect(*(f"<{header}>" for header in headers))

    def test_vendor_headers_in_their_box(self):
        for folder in ("kernels", "comm", "http", "tokenizer", "cli"):
            self.write_folder(folder, "base")
        for path, header in [("kernels/gpu/gpu_runtime.h", "cuda_runtime.h"),
                             ("kernels/vendor/gemm.cu", "hip/hip_runtime.h"),
                             ("kernels/cpu/vector/simd_avx2.h", "immintrin.h"),
                             ("comm/nccl.cc", "nccl.h"), ("comm/mpi.cc", "mpi.h"),
                             ("http/http_request_parser.cc", "boost/beast.hpp"),
                             ("http/http_client.cc", "curl/curl.h"),
                             ("http/content_decoder.cc", "zlib.h"),
                             ("http/content_decoder.cc", "zstd_errors.h"),
                             ("tokenizer/pretokenizer.cc", "pcre2.h"),
                             ("cli/options/parser.cc", "CLI/CLI.hpp")]:
            self.write(f"src/{path}", f"#include <{header}>\n")
        self.expect()

    def test_the_runtime_knows_no_command_line(self):
        self.write_folder("runtime", "base cli")
        self.write("src/runtime/runtime.cc",
                   '#include <CLI/CLI.hpp>\n#include "cli/options/options.h"\n')
        self.write("src/runtime/options.cc", 'const char* threads = getenv("THREADS");\n')
        self.expect("runtime must not link cli", "'getenv'", "<CLI/CLI.hpp>: CLI11")

    def test_throw_and_getenv_count_in_code_only(self):
        self.write("src/base/check.cc",
                   '// we never throw\n/* nor\n getenv */ auto s = "throw x";\n'
                   'auto r = R"(throw\n)";\nauto p = new (std::nothrow) int;\nthrow 1;\n'
                   'std::getenv("HOME");\n')
        self.expect("src/base/check.cc:7: 'throw'", "src/base/check.cc:8: 'getenv'")

    def test_options_may_read_the_environment(self):
        self.write_folder("cli", "base")
        self.write("src/cli/options/options.cc", 'std::getenv("HOME");\n')
        self.write("src/cli/main.cc", 'std::getenv("HOME");\n')
        self.expect("src/cli/main.cc:1: 'getenv'")

    def test_the_model_knows_no_communicator(self):
        self.write_folder("model", "base comm")
        self.write("src/model/block.cc", '#include "comm/communicator.h"\n')
        self.write_folder("comm", "base")
        self.expect("model must not link comm")
        self.write_folder("model", "base")
        self.expect("src/model/block.cc:1: includes comm/communicator.h")

    def test_only_the_drafter_knows_its_name(self):
        self.write_folder("model", "base")
        self.write_folder("cli", "base")
        self.write("src/model/block.h", "// MTP head\nbool with_mtp;\n// docs/spec/mtp.md 1\n")
        for path in ("model/draft/mtp.h", "cli/options/options.h", "cli/commands/logits.cc"):
            self.write(f"src/{path}", "bool mtp;\n")
        self.write("src/model/mtp_weights.h", "")
        self.expect("src/model/block.h:1: 'MTP'", "src/model/block.h:2: 'mtp'",
                    "src/model/mtp_weights.h: 'mtp'")

    def test_comments_begin_with_what_they_document(self):
        self.write("src/base/check.h", "// Sums the rows.\n// Of each row, the first is left out.\n"
                   "int i;  // Of the row.\n  // Of the rows.\nint j;\n// Offers a row.\n")
        self.write("tests/base/check_test.py", '"""What a row has."""\n# The same row again.\n')
        self.write_folder("server", "base")
        self.write("src/server/web/page.js", "// Those of the page.\n")
        self.expect("src/base/check.h:4: a comment begins with 'Of'",
                    "src/server/web/page.js:1: a comment begins with 'Those'",
                    "tests/base/check_test.py:1: a comment begins with 'What'")

    def test_long_files(self):
        self.write("tests/base/check_test.cc", "\n" * 600)
        self.write("tools/script", "\n" * 601)
        self.write("bench/data.json", "\n" * 601)
        self.write("fuzz/seeds/header/long", "\n" * 601)
        self.expect("tools/script: 601 lines")


if __name__ == "__main__":
    unittest.main()
