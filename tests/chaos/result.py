"""What a driver of chaos found."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple


class Result(NamedTuple):
    """How often each outcome came, and a line for each thing that was wrong.

    Each line of ``wrong`` names what makes it happen again: the seed and the number of the try, or a file.
    """

    name: str
    outcomes: Counter[str]
    wrong: list[str]

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the rows of the table: the driver, how often, and what came of it."""
        counted = sorted(self.outcomes.items(), key=lambda item: -item[1])
        return [
            *((self.name, str(number), outcome) for outcome, number in counted),
            (self.name, str(len(self.wrong)), "WRONG"),
        ]
