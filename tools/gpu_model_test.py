#!/usr/bin/env python3
"""Tests gpu_model: that it gives the times of gpu_review.md 3.2 for the kernels of November 2026
with one set of constants, and that it is consistent."""

import contextlib
import io
import json
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

from gpu_models import document, main, new_kernels, old_kernels, report, step
from gpu_models.batch import Batch, chosen_slots, parse_row, window_slots
from gpu_models.cost import Launch, Loop, Steps, estimate
from gpu_models.devices import DEVICES, find_device
from gpu_models.gauge import Gauge
from gpu_models.shapes import read_flash

BEFORE, PLANNED = main.FOLDER / "before.json", main.FOLDER / "planned.json"
MODELS = step.make_models()
FLASH = MODELS["flash"]
H200 = find_device("h200")
# Contexts with 3 and with 10 steps of 64 slots in a CSA layer.
SHORT, LONG = Batch(1, 256, False), Batch(1, 4096, False)


def gauge_of(build, device):
    return Gauge(BEFORE if build is old_kernels else PLANNED, device.architecture)


def layer_of(device, batch, ratio, build=old_kernels):
    return step.time_layer(build, gauge_of(build, device), device, FLASH, batch, ratio)


def us_of(device, batch, ratio, *operations, build=old_kernels):
    """us of some operations of a layer, or of all."""
    found = layer_of(device, batch, ratio, build)
    return sum(found[name][1].us for name in operations or found)


def speed_of(device, model, row, build=old_kernels):
    return step.time_row(build, gauge_of(build, device), device, MODELS[model],
                         parse_row(row)).tokens_per_second


def make_gauge(slots, integer=0, **more):
    """A gauge with a single loop, "loop"."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gauge.json"
        path.write_text(json.dumps({"loops": {"sm_90a": {"loop": {
            "numbers": 10, "slots": 10 * slots, "integer": 10 * integer, "registers": 32,
            **more}}}}))
        return Gauge(path, "sm_90a")


# (what, what the model computes for a device, least and most of gpu_review.md 3.2)
REVIEW = [
    ("large products, us", lambda d: us_of(d, LONG, 4, "large products"), 205, 205),
    ("experts, us", lambda d: us_of(d, LONG, 4, "experts"), 205, 205),
    ("small products, us", lambda d: us_of(d, LONG, 4, "small products"), 130, 130),
    ("QuantizeRows, us", lambda d: us_of(d, LONG, 4, "quantisation"), 36, 36),
    ("HcPre, us", lambda d: us_of(d, LONG, 4, "hyper-connections"), 180, 200),
    ("SparseAttention, short, us", lambda d: us_of(d, SHORT, 4, "attention"), 75, 75),
    ("SparseAttention, long, us", lambda d: us_of(d, LONG, 4, "attention"), 250, 250),
    # With a long context IndexScores and ChooseRows add 50 us, which the review does not name.
    ("the rest, short, us", lambda d: us_of(d, SHORT, 4, "the rest"), 105, 105),
    ("CSA layer, short, us", lambda d: us_of(d, SHORT, 4), 940, 940),
    ("CSA layer, long, us", lambda d: us_of(d, LONG, 4), 1100, 1100),
    ("HCA layer, us", lambda d: us_of(d, SHORT, 128), 840, 840),
    ("head, us", lambda d: step.time_outside(old_kernels.head(FLASH.shape, 1),
                                             d, gauge_of(old_kernels, d)), 300, 350),
    ("slice tg64, tokens/s", lambda d: speed_of(d, "slice", "tg64"), 400, 500),
    ("slice tg32@4096 by tg64", lambda d: speed_of(d, "slice", "tg32@4096")
     / speed_of(d, "slice", "tg64"), 0.9, 0.9),
    ("slice tg16x4 by tg64", lambda d: speed_of(d, "slice", "tg16x4")
     / speed_of(d, "slice", "tg64"), 2, 2),
    ("Flash tg64, tokens/s", lambda d: speed_of(d, "flash", "tg64"), 22, 27),
    ("Flash tg32@4096, tokens/s", lambda d: speed_of(d, "flash", "tg32@4096"), 22, 27),
    ("slice pp4096, tokens/s", lambda d: speed_of(d, "slice", "pp4096"), 1100, 1500),
    ("Flash pp4096, tokens/s", lambda d: speed_of(d, "flash", "pp4096"), 50, 70),
    # Tokens that all see 640 slots, as the review counts.
    ("CSA, 4,096 tokens: experts, s", lambda d: 8e-6 * us_of(
        d, Batch(512, 4096, True), 4, "experts"), 0.84, 0.84),
    ("CSA, 4,096 tokens: dense, s", lambda d: 8e-6 * us_of(
        d, Batch(512, 4096, True), 4, "large products", "small products"), 0.48, 0.48),
    ("CSA, 4,096 tokens: attention, s", lambda d: 8e-6 * us_of(
        d, Batch(512, 4096, True), 4, "attention"), 0.5, 0.5),
]


def far_from_review(device):
    """The lines of REVIEW from which the model is more than 25 % off."""
    found = [(what, compute(device), least, most) for what, compute, least, most in REVIEW]
    return [f"{what}: expected {least:g} to {most:g}, computed {value:.3g}"
            for what, value, least, most in found if not 0.75 * least <= value <= 1.25 * most]


class ReviewTest(unittest.TestCase):
    def test_one_set_of_constants_gives_the_times_of_the_review_within_a_quarter(self):
        self.assertEqual(far_from_review(H200), [])

    def test_other_constants_do_not(self):
        for name, value in (("pipe_share", 0.6), ("pipe_share", 1.2), ("start_us", 4.0),
                            ("start_us", 0.0), ("loaded_memory", 2.0), ("interval", 2.0)):
            device = replace(H200, assumptions=replace(H200.assumptions, **{name: value}))
            self.assertNotEqual(far_from_review(device), [], f"{name} {value}")

    def test_launches_of_a_layer_are_as_many_as_in_the_source(self):
        def launches(batch, ratio):
            return sum(n for n, _ in layer_of(H200, batch, ratio).values())

        self.assertEqual([launches(LONG, ratio) for ratio in (4, 128, 0)], [50, 39, 34])
        # A context in which no rows have to be chosen has no index queries and no scores.
        self.assertEqual(launches(SHORT, 4), 45)

    def test_the_new_kernels_meet_the_demands_as_planned(self):
        builds = [(build, gauge_of(build, H200)) for build in (old_kernels, new_kernels)]
        text, met = report.demands(builds, H200, MODELS)
        self.assertTrue(met, text)


class BytesTest(unittest.TestCase):
    def test_a_decoded_token_reads_the_bytes_of_the_specification(self):
        # docs/spec/flops_bytes.md: 11,217.58 MB of weights, and 11.3 MB of caches at 4K.
        def bytes_of(launch):
            return sum(map(bytes_of, launch.beside)) + launch.bytes * launch.times

        for build in (old_kernels, new_kernels):
            launches = build.head(FLASH.shape, 1)
            for (ratio, is_hash), count in FLASH.layers():
                launches += count * build.layer(FLASH.shape, LONG, ratio, is_hash)
            self.assertAlmostEqual(sum(map(bytes_of, launches)) / 11.229e9, 1, delta=0.01)

    def test_sizes_are_read_from_the_source(self):
        shape = read_flash()
        self.assertEqual((shape.hidden_size, shape.vocab_size, shape.key_bytes),
                         (4096, 129280, 584))
        kinds = {ratio: sum(n for (each, _), n in FLASH.layers() if each == ratio)
                 for ratio in (4, 128, 0)}
        self.assertEqual(kinds, {4: 21, 128: 20, 0: 2})
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "shapes.cc"
            path.write_text("ModelConfig FlashConfig() {\n  config.hidden_size = 4'096;\n}\n")
            with self.assertRaisesRegex(ValueError, "expected vocab_size, num_hidden_layers, "):
                read_flash(path)

    def test_tokens_see_the_rows_of_the_specification(self):
        shape = FLASH.shape
        self.assertEqual([window_slots(shape, p) for p in (0, 126, 127, 5000)], [1, 127, 128, 128])
        self.assertEqual([chosen_slots(shape, p, 4) for p in (2, 3, 2047, 5000)], [0, 1, 512, 512])
        self.assertEqual([chosen_slots(shape, p, 128) for p in (126, 127, 4095)], [0, 1, 32])
        self.assertEqual(chosen_slots(shape, 4095, 0), 0)


class ConsistencyTest(unittest.TestCase):
    def test_a_faster_device_is_never_slower(self):
        for build in (old_kernels, new_kernels):
            for row in ("tg64", "tg16x16", "pp512"):
                slow = speed_of(H200, "flash", row, build)
                for change in ({"memory_tb_s": 9.6}, {"units": 264}, {"ghz": 3.0}, {"integer": 128},
                               {"memory": 240}, {"gap_us": 0.5}, {"registers": 1 << 17}):
                    self.assertGreaterEqual(speed_of(replace(H200, **change), "flash", row, build),
                                            slow, f"{build.NAME} {row} {change}")

    def test_more_work_never_takes_less_time(self):
        def layers(build, batches):
            return [sum(us_of(H200, batch, ratio, build=build) for ratio in (4, 128, 0))
                    for batch in batches]

        for build in (old_kernels, new_kernels):
            for batches in ([Batch(n, 100, False) for n in (1, 4, 16, 32, 64, 128)],
                            [Batch(1, p, False) for p in (0, 100, 1000, 3000, 10000, 100000)],
                            [Batch(n, 0, True) for n in (128, 256, 512, 1024)]):
                times = layers(build, batches)
                self.assertEqual(times, sorted(times), build.NAME)

    def test_more_slots_never_take_less_time(self):
        launch = Launch("x", "X", 1000, (Loop("loop", 1e8, 1000, {"l2": 1}),), "loop")
        times = [estimate(launch, H200, make_gauge(slots)).us for slots in (10, 20, 40, 80)]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[-1], times[0])


class CostTest(unittest.TestCase):
    def test_what_bounds_a_launch(self):
        def bound(**more):
            launch = Launch("x", "X", **({"blocks": 1320, "registers": "loop"} | more))
            return estimate(launch, H200, make_gauge(4, integer=3)).bound

        work = Loop("loop", 1e9, 10, {"l1": 1})
        self.assertEqual(bound(phases=(work,)), "integer pipe")
        self.assertEqual(bound(phases=(work,), bytes=1e9), "memory")
        self.assertEqual(bound(phases=(Steps(1000, {"memory": 1}),)), "latency")
        self.assertEqual(bound(phases=(Steps(1, {"memory": 1}),)), "launch")

    def test_loads_take_as_long_as_their_bytes_and_at_least_a_cycle(self):
        device = replace(H200, assumptions=replace(H200.assumptions, pipe_share=1.0))
        launch = Launch("x", "X", 1320, (Loop("loop", 1e9, 10, {"l1": 0}),), "loop")

        def us(**loads):
            return estimate(launch, device, make_gauge(1, **loads)).us

        # Ten numbers with a load of 16 bytes and two of one byte: 4 + 2 cycles for 32 threads.
        self.assertAlmostEqual(us(**{"load bytes": {"16": 1, "1": 2}}),
                               1e8 / 32 * 6 / 132 / 1980 + 2.5, places=3)
        self.assertEqual(us(**{"load bytes": {"16": 1}, "shared load bytes": {"1": 2}}),
                         us(**{"load bytes": {"16": 1, "1": 2}}))

    def test_a_launch_takes_the_time_of_its_parts_by_hand(self):
        device = replace(H200, assumptions=replace(H200.assumptions, pipe_share=1.0))
        # 1e9 numbers of 4 slots on 132 units of 128 threads: 236.7 million cycles in all.
        launch = Launch("x", "X", 1320, (Loop("loop", 1e9, 10, {"l1": 0}),), "loop")
        self.assertAlmostEqual(estimate(launch, device, make_gauge(4)).us,
                               4e9 / 128 / 132 / 1980 + 2.5, places=3)
        # 133 blocks: one unit has two of them.
        longer = replace(launch, blocks=133)
        self.assertAlmostEqual(estimate(longer, device, make_gauge(4)).us,
                               2 * 4e9 / 128 / 133 / 1980 + 2.5, places=3)
        # Blocks of 256 registers run one by one: ten rounds of 100 steps of 29 cycles.
        rounds = Launch("x", "X", 1320, (Steps(100, {"shared": 1}),), 255)
        self.assertAlmostEqual(estimate(rounds, device, make_gauge(4)).us,
                               10 * 100 * 29 / 1980 + 2.5, places=3)

    def test_launches_in_one_launch_take_no_less_than_the_longest(self):
        small = Launch("x", "A", 10, (Steps(100, {"memory": 1}),))
        large = Launch("x", "B", 1980, (Loop("loop", 1e9, 1000, {"l2": 1}),), "loop", bytes=1e8)
        gauge = make_gauge(4)
        both = estimate(Launch("x", "AB", beside=(small, large)), H200, gauge).us
        alone = [estimate(launch, H200, gauge).us for launch in (small, large)]
        self.assertGreaterEqual(both, max(alone) - 1e-9)
        self.assertLess(both, sum(alone))


class ProgramTest(unittest.TestCase):
    def test_the_document_has_the_tables_of_the_program(self):
        builds = main.make_builds(main.parse([]), H200, [])
        text = document.DOCUMENT.read_text()
        self.assertEqual(document.replace(text, document.render(builds, H200, MODELS)), text,
                         "write it with tools/gpu_model --document")

    def run_main(self, *arguments):
        printed, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
            code = main.main(list(arguments))
        return code, printed.getvalue(), errors.getvalue()

    def test_both_builds_side_by_side_on_every_device(self):
        code, text, _ = self.run_main("--device", ",".join(DEVICES), "--rows", "tg64", "--kernels")
        self.assertEqual(code, 0)
        self.assertEqual(text.count("| tg64 | all 43 layers |"), len(DEVICES))
        self.assertIn("| CSA layer | launches | us before | bound by |", text)
        self.assertIn("| SparseAttention | attention | 64 |", text)

    def test_a_demand_that_is_not_met_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            planned = json.loads(PLANNED.read_text())
            for loop in planned["loops"]["sm_90a"].values():
                loop["slots"] *= 8
            path = Path(folder) / "worse.json"
            path.write_text(json.dumps(planned))
            code, text, _ = self.run_main("--after", str(path), "--rows", "tg64", "--check")
        self.assertEqual(code, 1)
        self.assertIn("| NO |", text)
        self.assertEqual(self.run_main("--rows", "tg64", "--check")[0], 0)

    def test_loops_that_are_missing_are_all_named_and_nothing_is_guessed(self):
        with tempfile.TemporaryDirectory() as folder:
            planned = json.loads(PLANNED.read_text())
            for title in ("HcChains, 1 row", "LinearFp8, tile"):
                del planned["loops"]["sm_90a"][title]
            path = Path(folder) / "gauge.json"
            path.write_text(json.dumps(planned))
            code, text, error = self.run_main("--after", str(path), "--rows", "tg64")
            self.assertEqual(code, 2)
            self.assertNotIn("tg64", text)
            self.assertIn('expected loops that it does not have: "HcChains, 1 row", '
                          '"LinearFp8, tile". It has: ', error)
            del planned["loops"]["sm_80"]
            path.write_text(json.dumps(planned))
            code, _, error = self.run_main("--after", str(path), "--device", "a100")
            self.assertEqual(code, 2)
            self.assertIn("expected loops of sm_80, found sm_90a, gfx942", error)

    def test_unknown_devices_and_rows(self):
        self.assertEqual(self.run_main("--device", "h300")[0::2], (
            2, "gpu_model: device: expected one of h200, h100, a100, rtx4090, pro6000, mi300x, "
               "found h300\n"))
        self.assertIn("found pp4096x2", self.run_main("--rows", "pp4096x2")[2])
        self.assertIn("found tg0", self.run_main("--layers", "tg0")[2])


if __name__ == "__main__":
    unittest.main()
