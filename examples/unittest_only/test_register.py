"""A test without pytest: the broker is a context manager. `python -m unittest` runs this file, and so does pytest."""

from __future__ import annotations

import unittest

from examples.unittest_only.register import Register, report
from leveret import Broker


class TestRegister(unittest.TestCase):
    """Tests of what the register keeps."""

    def setUp(self) -> None:
        self.broker = self.enterContext(Broker())
        self.register = Register(self.broker.url)
        self.addCleanup(self.register.close)

    def test_the_last_temperature_of_a_sensor_is_kept(self) -> None:
        report(self.broker.url, "cellar", "temperature", 11.5)
        report(self.broker.url, "cellar", "temperature", 12.0)

        self.register.take()
        self.register.take()

        self.assertEqual(self.register.temperatures, {"cellar": 12.0})
        self.broker.assert_acked("register", times=2)

    def test_other_measurements_do_not_reach_the_register(self) -> None:
        report(self.broker.url, "cellar", "humidity", 80)

        self.broker.assert_dropped("measurements", reason="no route", routing_key="cellar.humidity")
        self.broker.assert_empty("register")

    def test_a_value_that_is_not_a_number_is_rejected(self) -> None:
        self.broker.publish("measurements", "attic.temperature", json={"sensor": "attic", "value": "warm"})

        self.register.take()

        self.assertEqual(self.register.temperatures, {})
        self.broker.assert_dropped("register", reason="rejected", json={"sensor": "attic", "value": "warm"})


if __name__ == "__main__":
    unittest.main()
