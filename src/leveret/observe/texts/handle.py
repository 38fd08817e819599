"""How a test can change the settings of a broker, for the advice that names them: only what acts is named."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

# What a line of an ini file would split at.
_SPLIT: Final = re.compile(r"[\s,:]|=.*=")


class Handle(NamedTuple):
    """What the tests call a broker, and where its settings are."""

    # "" if the tests hold no object of it.
    name: str = "broker"
    # Whether the test itself made it, a fixture made it for one test, or it serves many tests.
    reach: Literal["made", "one test", "many tests"] = "made"

    def ways_to_set(self, word: str, value: str, line: str, *others: str) -> str:
        """Return where a keyword can have a value: as Python has it, as a line of the ini file, and other ways."""
        ways = [*others]
        if self.reach != "made" and not _SPLIT.search(line):
            ways.insert(0, f"leveret_{word} = {line} in the ini file")
        # Levels of checks are the only keyword of the marker that acts on a broker that serves others as well.
        if self.reach != "many tests" or word == "checks":
            ways.insert(0, f"{'Broker' if self.reach == 'made' else '@pytest.mark.leveret'}({word}={value})")
        return ", or ".join(ways)

    def admin(self, method: str) -> str:
        """Return a call of `broker.admin`, or the command of rabbitmqctl where there is no such object."""
        return f"{self.name}.admin.{method}" if self.name else f"rabbitmqctl {method.partition('(')[0]}"


MADE: Final = Handle()
FOR_ONE_TEST: Final = Handle(reach="one test")
