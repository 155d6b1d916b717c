"""Train two models whose optimizers are no variables of their own."""

from __future__ import annotations

import json
from typing import Any

import torch

torch.manual_seed(5)


class Attributes:
    def __init__(self, first: Any, second: Any) -> None:
        self.optimizer_G, self.optimizer_D = first, second

    def update(self, number: int) -> None:
        (self.optimizer_G, self.optimizer_D)[number].step()


class Keys:
    def __init__(self, first: Any, second: Any) -> None:
        self.optimizers = {"G": first, "D": second}

    def update(self, number: int) -> None:
        [*self.optimizers.values()][number].step()


class Places:
    def __init__(self, first: Any, second: Any) -> None:
        self.optimizers = [first, second]

    def update(self, number: int) -> None:
        self.optimizers[number].step()


class Wrapper:
    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def zero_grad(self) -> None:
        self.optimizer.zero_grad()

    def step(self) -> None:
        self.optimizer.step()


class Wrapped:
    def __init__(self, first: Any, second: Any) -> None:
        self.of_g, self.of_d = Wrapper(first), Wrapper(second)

    def update(self, number: int) -> None:
        own_g, own_d = self.of_g, self.of_d
        (own_g, own_d)[number].step()


class Passed:
    def __init__(self, *optimizers: Any) -> None:
        self._optimizers = optimizers

    def update(self, number: int) -> None:
        for n, one in enumerate(self._optimizers):
            if n == number:
                one.step()


how: Any = Attributes
models = [torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)]
trainer = how(*(torch.optim.SGD(one.parameters(), lr=0.1) for one in models))
losses: list[list[float]] = [[], []]
for _ in range(4):
    for number, model in enumerate(models):
        model.zero_grad()
        loss = model(torch.randn(4, 3)).pow(2).mean()
        loss.backward()
        trainer.update(number)
        losses[number].append(loss.item())
print(json.dumps(losses))
