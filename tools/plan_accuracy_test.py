import unittest

import plan_accuracy

REPORT = {"threads": 2, "isa": "avx2", "roofline": {"read_gb_s": 30.0, "fma_gflop_s": 200.0}}


class PlanAccuracyTest(unittest.TestCase):
    def test_devices_share_the_machine(self):
        link = {"gb_s": 2, "latency_us": 10}
        one = plan_accuracy.hardware_of(REPORT, 1, link, {})
        two = plan_accuracy.hardware_of(REPORT, 2, link, {"memory": 0.9})
        self.assertEqual(one["device"]["memory_gb_s"], 30)
        self.assertEqual(two["device"]["memory_gb_s"], 15)
        self.assertEqual(two["device"]["gflop_s"], 100)
        self.assertEqual(two["device"]["memory_bytes"] * 2, one["device"]["memory_bytes"])
        self.assertEqual(two["devices_per_node"], 2)
        self.assertEqual(two["efficiency"], {"memory": 0.9})

    def test_rows_are_those_of_bench(self):
        row = plan_accuracy.ROW.match("tg128@4096x4")
        self.assertEqual((row["kind"], row["tokens"], row["depth"], row["sequences"]),
                         ("tg", "128", "4096", "4"))
        self.assertIsNone(plan_accuracy.ROW.match("pp512")["depth"])
        self.assertIsNone(plan_accuracy.ROW.match("pp"))

    def test_a_link_has_a_speed(self):
        link = plan_accuracy.measure_link()
        self.assertGreater(link["gb_s"], 0)
        self.assertGreater(link["latency_us"], 0)


if __name__ == "__main__":
    unittest.main()
