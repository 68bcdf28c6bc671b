"""Muon: momentum whose update is made orthogonal. For matrices; everything else takes AdamW."""

import torch

ROUNDS, COEFFICIENTS = 5, (3.4445, -4.7750, 2.0315)


def orthogonal(x):
    """An approximately orthogonal matrix near `x`, by Newton-Schulz rounds in bfloat16."""
    tall = x.shape[0] > x.shape[1]
    x = (x.T if tall else x).bfloat16()
    x = x / (x.norm() + 1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(ROUNDS):
        square = x @ x.T
        x = a * x + (b * square + c * (square @ square)) @ x
    return (x.T if tall else x).float()


class Muon(torch.optim.Optimizer):
    """`lr` is the size of a step of a square matrix."""

    def __init__(self, weights, lr, momentum=0.95):
        super().__init__(weights, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                mean = self.state[weight].setdefault("momentum", torch.zeros_like(weight))
                mean.lerp_(weight.grad, 1 - group["momentum"])
                update = orthogonal(weight.grad.lerp(mean, group["momentum"]))
                weight.add_(update, alpha=-group["lr"] * max(1, weight.shape[0] / weight.shape[1]) ** 0.5)
