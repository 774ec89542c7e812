"""Gradient modes, precision modes, contexts and decorators."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

import torch
from torch import nn

from capture.cases.registry import Code, case

TOPIC = "mode"


class _Net(Code):
    def __init__(self) -> None:
        self.net, self.last = nn.Linear(8, 4), torch.zeros(1, 4)

    def reset(self) -> None:
        self.last = torch.zeros(1, 4)

    def act(self, x: torch.Tensor) -> torch.Tensor:
        self.last = torch.tanh(self.net(torch.cat((x, self.last), dim=-1)))
        return self.last


@case(TOPIC, "gradients on, the graph grows over the steps")
class GradientsOn(_Net):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.act(x)}


@case(TOPIC, "inference mode")
class InferenceMode(_Net):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        with torch.inference_mode():
            return {"y": self.act(x)}


@case(TOPIC, "inference mode with a state written in place")
class InferenceInPlace(Code):
    def __init__(self) -> None:
        with torch.inference_mode():
            self.state = torch.zeros(1, 4)

    def reset(self) -> None:
        with torch.inference_mode():
            self.state.zero_()

    @torch.inference_mode()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.state.lerp_(x, 0.5)
        self.state[:, 0] += 1
        return {"y": self.state}


@case(TOPIC, "a decorator of no_grad, and grad inside it")
class NoGrad(_Net):
    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.act(x)
        with torch.enable_grad():
            z = self.net(torch.cat((x, y), dim=-1))
        return {"y": y, "z": z.detach()}


@case(TOPIC, "autocast to bfloat16 on the CPU", "unsupported_operation")
class Autocast(Code):
    tolerance = 2e-2
    options = {"atol": 2e-2, "rtol": 2e-2}

    def __init__(self) -> None:
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()

    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.net(x)
        return {"y": y.float()}


@case(TOPIC, "a context manager of one's own around the policy")
class OwnContext(_Net):
    @contextlib.contextmanager
    def scaled(self, x: torch.Tensor) -> Iterator[torch.Tensor]:
        yield x * 0.5
        self.last = self.last * 0.9

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        with self.scaled(x) as scaled:
            y = self.act(scaled)
        return {"y": y}


@case(TOPIC, "observation terms as functools.partial in a list")
class Partial(Code):
    inputs = {"velocity": (1, 3), "joints": (1, 4)}

    def __init__(self) -> None:
        scaled: Callable[..., torch.Tensor] = lambda name, scale, obs: obs[name] * scale  # noqa: E731
        self.terms = [functools.partial(scaled, "velocity", 0.25), functools.partial(scaled, "joints", scale=0.05)]

    def step(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"observation": torch.cat([term(obs=inputs) for term in self.terms], dim=-1)}


@case(TOPIC, "try and except around a lookup")
class TryExcept(Code):
    def __init__(self) -> None:
        self.gains = {"leg": 2.0}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        try:
            gain = self.gains["arm"]
        except KeyError:
            gain = self.gains["leg"]
        return {"y": x * gain}


@case(TOPIC, "printing and logging tensors is harmless")
class Printing(Code):
    def __init__(self) -> None:
        self.log: list[str] = []

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x * 2
        self.log.append(f"step {y} of {x.shape} mean {y.mean():.3f} {x!r} {str(x)[:5]}")
        return {"y": y}


@case(TOPIC, "an assertion on values is harmless")
class Assertion(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        assert torch.isfinite(x).all(), "observation is not finite"
        assert x.abs().max() < 1e6
        assert (
            x.min().item()
            > -1e6
        ), f"too small: {x}"  # fmt: skip
        return {"y": x * 2}


@case(TOPIC, "a check by torch itself")
class AsyncCheck(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        torch._assert_async(x.isfinite().all())
        return {"y": x * 2}


@case(TOPIC, "a check that raises, which is a branch like any other", "value_leak")
class Check(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if not torch.isfinite(x).all():
            raise ValueError("observation is not finite")
        return {"y": x * 2}


@case(TOPIC, "shapes, dtypes and lengths are no leaks")
class Shapes(Code):
    inputs = {"x": (3, 4)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        rows, columns = x.shape
        assert x.dtype == torch.float32
        assert x.device.type == "cpu"
        scale = 1.0 / (len(x) * x.size(-1) * x.numel() ** 0.5)
        return {"y": x.view(columns, rows) * scale, "z": x.new_zeros(rows) + x.sum(1) / x.ndim}


@case(TOPIC, "the deterministic action of a distribution")
class Deterministic(Code):
    def __init__(self) -> None:
        self.net, self.std = nn.Linear(4, 2), nn.Parameter(torch.ones(2) * 0.3)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        distribution = torch.distributions.Normal(self.net(x), self.std)
        return {"mean": distribution.mean, "log_prob": distribution.log_prob(x[:, :2])}


@case(TOPIC, "the mode of a squashed distribution and a log-probability")
class Squashed(Code):
    def __init__(self) -> None:
        self.net = nn.Linear(4, 2)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        base = torch.distributions.Normal(self.net(x), 0.5)
        squash = torch.distributions.transforms.TanhTransform(cache_size=1)
        squashed = torch.distributions.TransformedDistribution(base, [squash])
        action = squash(base.mean)
        return {"action": action, "log_prob": squashed.log_prob(action * 0.9).sum(-1)}


@case(TOPIC, "the mode of a categorical distribution")
class Categorical(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        distribution = torch.distributions.Categorical(logits=x)
        return {"best": distribution.mode, "probs": distribution.probs, "entropy": distribution.entropy()}


class _Pose(torch.Tensor):
    def height(self) -> torch.Tensor:
        return self[..., 2]


@case(TOPIC, "a subclass of Tensor")
class Subclass(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        pose = x.as_subclass(_Pose)
        return {"y": (pose.height() * 2 + pose.sum()).as_subclass(torch.Tensor)}


@case(TOPIC, "a random number that decides nothing")
class UnusedRandom(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.noise = torch.randn(1, 4)
        return {"y": x * 2}
