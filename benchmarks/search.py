"""What hyperband and Bayesian optimization find on the digits, against random search with the same training.

Each search trains as many epochs in all, and starts from the same seed; what counts is the accuracy on digits
that it has not seen. Figures are shown as they are measured.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

from hpcdist.experiment.search import Bayes, Count, Hyperband, Metric, Resource, Search, Space
from hpcdist.experiment.trials import TrialResult, next_generation, trials
from hpcdist.searches.adaptive import propose

REPETITIONS: Final = 5
MOST: Final = 27
"""Epochs of a whole training."""

ACCURACY: Final = Metric("accuracy")
BAND: Final = Hyperband(MOST, Resource("epochs", "int"), ACCURACY)
MATRIX: Final = {
    "lr": Space(loguniform=(math.log(1e-4), math.log(3.0))),
    "width": Space(values=(2, 4, 8, 16, 32)),
    "momentum": Space(uniform=(0.0, 0.99)),
    "batch_size": Space(values=(8, 16, 32, 64, 128)),
}
Train = Callable[[Mapping[str, Any]], float]


def trained() -> Train:
    """Return what trains on the digits of scikit-learn and returns the accuracy on a third of them."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(images / 16, labels, test_size=1 / 3, random_state=0)

    def train(params: Mapping[str, Any]) -> float:
        network = MLPClassifier(
            (params["width"],),
            solver="sgd",
            learning_rate_init=params["lr"],
            momentum=params["momentum"],
            batch_size=params["batch_size"],
            max_iter=int(params.get("epochs", MOST)),
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it has not converged after so few epochs, or left the numbers
            try:
                return float(network.fit(parts[0], parts[2]).score(parts[1], parts[3]))
            except ValueError:
                return 0.0

    return train


def of_hyperband(train: Train, seed: int) -> tuple[float, int]:
    """Return the best accuracy, and the epochs of all trials."""
    search = Search(matrix=MATRIX, hyperband=BAND, seed=seed)
    fresh, found = [*trials(search)], list[TrialResult]()
    while fresh:
        found += [TrialResult(len(found) + at, one, train(one)) for at, one in enumerate(fresh, 1)]
        fresh = [one.params for one in next_generation(BAND, found)]
    return max(one.value or 0.0 for one in found), sum(int(one.params["epochs"]) for one in found)


def of_bayes(train: Train, seed: int, count: int) -> float:
    """Return the best accuracy of so many whole trainings, a third of them random, four at once."""
    algorithm = Bayes(count // 3, count - count // 3, ACCURACY)
    search = Search(matrix=MATRIX, bo=algorithm, seed=seed)
    fresh, found = [*trials(search)], list[TrialResult]()
    while fresh:
        found += [TrialResult(len(found) + at, one, train(one)) for at, one in enumerate(fresh, 1)]
        fresh = [one.params for one in propose(search, algorithm, found, 4)]
    return max(one.value or 0.0 for one in found)


def main() -> None:
    """Print a row for each algorithm."""
    train = trained()
    rows: dict[str, list[float]] = {"random": [], "hyperband": [], "bo": []}
    for seed in range(REPETITIONS):
        best, epochs = of_hyperband(train, seed)
        count = epochs // MOST
        random = Search(matrix=MATRIX, random_search=Count(count), seed=seed)
        rows["random"].append(max(map(train, trials(random))))
        rows["hyperband"].append(best)
        rows["bo"].append(of_bayes(train, seed, count))
    print(f"best accuracy on the digits with {epochs} epochs in all, {REPETITIONS} seeds")
    for name, values in rows.items():
        each = " ".join(f"{value:.4f}" for value in values)
        print(f"{name:<10} mean {statistics.mean(values):.4f}   {each}", flush=True)


if __name__ == "__main__":
    main()
