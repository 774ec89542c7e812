"""Shapes, reductions and constants made in the step."""

from __future__ import annotations

import torch
from torch.nn import functional

from capture.cases.registry import Code, case

TOPIC = "shape"


@case(TOPIC, "constants made in every step")
class Made(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        scale = torch.tensor([1.0, 2.0, 3.0, 4.0])
        y = x * scale + torch.arange(4) + torch.zeros(1, 4) + torch.ones_like(x) + torch.full((4,), 0.5)
        return {"y": y @ torch.eye(4), "z": torch.as_tensor([0.5, 1.5, 2.5, 3.5]) * x + torch.linspace(0, 1, 4)}


@case(TOPIC, "stacks by comprehension over joints")
class Comprehension(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        legs = [torch.sin(x[:, joint]) * joint for joint in range(4)]
        return {"a": torch.stack(legs, dim=1), "b": torch.hstack((x, x)), "c": torch.vstack((x, x)), "d": sum(legs)}


@case(TOPIC, "rows iterated, zipped and enumerated")
class Iterated(Code):
    inputs = {"x": (3, 4)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        total = torch.zeros(4)
        for index, (row, weight) in enumerate(zip(x, (0.1, 0.2, 0.3), strict=True)):
            total = total + row * weight * index
        first, *others = x
        return {"total": total, "others": torch.stack(others) - first}


@case(TOPIC, "padding of every kind")
class Padding(Code):
    inputs = {"x": (1, 2, 6)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {
            "zero": functional.pad(x, (1, 2)),
            "value": functional.pad(x, (0, 1, 1, 0), value=-1.0),
            "reflect": functional.pad(x, (2, 2), mode="reflect"),
            "replicate": functional.pad(x, (1, 3), mode="replicate"),
            "circular": functional.pad(x, (2, 1), mode="circular"),
            "cropped": functional.pad(x, (-1, -2)),
        }


@case(TOPIC, "repeat, tile, repeat_interleave and expand")
class Repeats(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        wide = x.repeat(2, 3)
        return {
            "a": wide,
            "b": torch.tile(x, (2,)),
            "c": x.repeat_interleave(2, dim=1),
            "d": x.expand(3, 4) + wide[:1, :4],
        }


@case(TOPIC, "reductions of every kind")
class Reductions(Code):
    inputs = {"x": (2, 3, 4)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {
            "sum": x.sum(dim=(0, 2)),
            "mean": x.mean(-1, keepdim=True),
            "std": x.std(dim=1),
            "var": x.var(dim=1, unbiased=False),
            "prod": x.prod(dim=2),
            "logsumexp": torch.logsumexp(x, dim=-1),
            "norm": x.norm(p=1, dim=-1),
            "count": torch.count_nonzero(x > 0, dim=0),
            "all": x.sum(),
        }


@case(TOPIC, "cumulative operations")
class Cumulative(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {
            "sum": x.cumsum(-1),
            "prod": x.cumprod(-1),
            "max": x.cummax(-1).values,
            "diff": torch.diff(x, dim=-1),
            "trapezoid": torch.trapezoid(x, dx=0.1),
        }


@case(TOPIC, "elementary functions")
class Elementary(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        small = torch.tanh(x) * 0.9
        return {
            "a": torch.exp(small) + torch.log1p(x.square()) + torch.expm1(small) + torch.exp2(small),
            "b": torch.asin(small) + torch.acos(small) + torch.atan(x) + torch.atanh(small) + torch.sinh(small),
            "c": torch.sign(x) * torch.sqrt(x.abs()) + torch.rsqrt(x.abs() + 1) + torch.reciprocal(x.abs() + 1),
            "d": torch.hypot(x, small) + torch.erf(x) + torch.sinc(x) + torch.log10(x.abs() + 1) + x.abs() ** 1.7,
            "e": torch.deg2rad(x)
            + torch.rad2deg(small)
            + torch.heaviside(x, torch.tensor(0.5))
            + torch.xlogy(x.abs(), x.abs()),
            "f": torch.logaddexp(x, small)
            + torch.softmax(x, -1)
            + torch.sigmoid(x)
            + torch.special.expit(x)
            + torch.square(x),
        }


@case(TOPIC, "clamps with numbers, with tensors, and on one side")
class Clamps(Code):
    def __init__(self) -> None:
        self.low, self.high = torch.tensor([-0.5, -0.2, 0.0, 0.1]), torch.tensor([0.5, 0.2, 1.0, 0.1])

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {
            "numbers": x.clamp(-0.5, 0.5),
            "tensors": torch.clamp(x, self.low, self.high),
            "low": x.clamp(min=self.low),
            "minimum": torch.minimum(torch.maximum(x, self.low), self.high),
            "max": torch.max(x, -x),
            "crossed": x.clamp(0.5, -0.5),
        }


@case(TOPIC, "a limit of soft joint bounds, out of bounds as a penalty")
class SoftLimits(Code):
    def __init__(self) -> None:
        self.limits = torch.tensor([[-1.0, 1.0]] * 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        out = -(x - self.limits[:, 0]).clip(max=0.0) + (x - self.limits[:, 1]).clip(min=0.0)
        return {
            "penalty": out.sum(dim=1),
            "scaled": 2 * (x - self.limits.mean(1)) / (self.limits[:, 1] - self.limits[:, 0]),
        }


@case(TOPIC, "heights sampled from a grid")
class GridSample(Code):
    inputs = {"points": (1, 5, 2)}
    tolerance = 1e-4
    options = {"atol": 1e-4, "rtol": 1e-4}

    def __init__(self) -> None:
        self.heights = torch.randn(1, 1, 8, 8)

    def step(self, points: torch.Tensor) -> dict[str, torch.Tensor]:
        grid = torch.tanh(points)[:, None]
        linear = functional.grid_sample(self.heights, grid, align_corners=True, padding_mode="border")
        nearest = functional.grid_sample(self.heights, grid, mode="nearest", align_corners=False)
        return {"linear": linear.flatten(1), "nearest": nearest.flatten(1)}


@case(TOPIC, "images resized and cropped")
class Resized(Code):
    inputs = {"image": (1, 3, 9, 12)}

    def step(self, image: torch.Tensor) -> dict[str, torch.Tensor]:
        return {
            "bilinear": functional.interpolate(image, size=(4, 4), mode="bilinear", align_corners=False),
            "nearest": functional.interpolate(image, scale_factor=2, mode="nearest"),
            "area": functional.interpolate(image, size=(3, 3), mode="area"),
            "crop": image[..., 1:-1, 2:-2],
            "patches": functional.unfold(image, kernel_size=3, stride=3),
        }


@case(TOPIC, "a height scan laid out by meshgrid in the step")
class Meshgrid(Code):
    inputs = {"yaw": (1,)}

    def step(self, yaw: torch.Tensor) -> dict[str, torch.Tensor]:
        grid_x, grid_y = torch.meshgrid(torch.linspace(-0.8, 0.8, 3), torch.arange(-0.5, 0.6, 0.5), indexing="ij")
        points = torch.stack((grid_x.flatten(), grid_y.flatten()), dim=-1)
        cos, sin = torch.cos(yaw), torch.sin(yaw)
        rotation = torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2)
        return {"points": torch.einsum("bij,nj->bni", rotation, points)}


@case(TOPIC, "triangles, kronecker and outer products")
class Matrices(Code):
    inputs = {"x": (3, 3)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {
            "tril": x.tril(-1) + torch.triu(x, 1),
            "outer": torch.outer(x[0], x[1]),
            "kron": torch.kron(x[:2, :2], torch.eye(2)),
            "trace": torch.trace(x),
            "power": torch.linalg.matrix_power(x, 3),
            "baddbmm": torch.addmm(x, x, x, beta=0.5, alpha=2.0),
            "dot": torch.dot(x[0], x[1]),
            "chain": torch.linalg.multi_dot((x, x, x[:, 0])),
        }


@case(TOPIC, "a batch of many robots")
class ManyRobots(Code):
    inputs = {"x": (16, 4), "done": lambda generator: torch.rand(16, generator=generator) > 0.8}

    def __init__(self) -> None:
        self.history = torch.zeros(16, 3, 4)

    def reset(self) -> None:
        self.history.zero_()

    def step(self, x: torch.Tensor, done: torch.Tensor) -> dict[str, torch.Tensor]:
        self.history[:, :-1] = self.history[:, 1:].clone()
        self.history[:, -1] = x
        self.history[done] = 0.0
        return {"y": self.history.flatten(1)}


@case(TOPIC, "inputs that are one number or a plain vector")
class PlainVectors(Code):
    inputs = {"x": (4,), "gain": ()}

    def __init__(self) -> None:
        self.total = torch.tensor(0.0)

    def reset(self) -> None:
        self.total = torch.tensor(0.0)

    def step(self, x: torch.Tensor, gain: torch.Tensor) -> dict[str, torch.Tensor]:
        self.total = self.total + gain
        return {"y": x * gain, "total": self.total}


@case(TOPIC, "sparse constants", "unsupported_operation")
class Sparse(Code):
    def __init__(self) -> None:
        self.matrix = torch.eye(4).to_sparse()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": torch.sparse.mm(self.matrix, x.T)}
