"""Masks and conditions."""

from __future__ import annotations

import torch

from capture.cases.registry import Code, case

TOPIC = "mask"


@case(TOPIC, "elements set where a mask says so")
class ElementMask(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x.clone()
        y[y > 0.5] = 0.5
        y[x.abs() < 0.1] = 0
        return {"y": y}


@case(TOPIC, "elements set to a tensor that is one number")
class ElementMaskTensor(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x * 2
        y[y < 0] = x.mean()
        return {"y": y}


@case(TOPIC, "rows of a state set to rows of a default")
class RowMask(Code):
    inputs = {"x": (3, 4), "contact": lambda generator: torch.rand(3, generator=generator) > 0.5}

    def __init__(self) -> None:
        self.state, self.default = torch.zeros(3, 4), torch.tensor([0.1, 0.2, 0.3, 0.4])

    def reset(self) -> None:
        self.state.zero_()

    def step(self, x: torch.Tensor, contact: torch.Tensor) -> dict[str, torch.Tensor]:
        self.state += x
        self.state[contact] = self.default
        self.state[~contact, 1] = 0.0
        return {"y": self.state}


@case(TOPIC, "rows multiplied in place where a mask says so", "data_dependent_shape")
class RowsMultiplied(Code):
    inputs = {"x": (3, 4)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x.clone()
        y[x[:, 0] > 0] *= 0.5
        return {"y": y}


@case(TOPIC, "elements taken out by a mask", "data_dependent_shape")
class TakenOut(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x[x > -10].sum().reshape(1)}


@case(TOPIC, "elements of one state copied into another by the same mask", "data_dependent_shape")
class CopiedByMask(Code):
    inputs = {"x": (3, 4)}

    def __init__(self) -> None:
        self.command = torch.zeros(3, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        moving = x[:, 0] > 0
        self.command[moving] = x[moving]
        return {"y": self.command}


@case(TOPIC, "columns chosen by a constant mask")
class ConstantMask(Code):
    def __init__(self) -> None:
        self.legs = torch.tensor([True, False, True, True])

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x.clone()
        y[:, ~self.legs] = 0.0
        return {"y": y, "legs": x[:, self.legs]}


@case(TOPIC, "a comparison as a factor")
class Factor(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        moving = torch.norm(x[:, :2], dim=1, keepdim=True) > 0.2
        return {"y": x * moving, "z": x * (x > 0).float(), "moving": moving}


@case(TOPIC, "torch.where with numbers, and nested")
class Where(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        inner = torch.where(x > 0, 1.0, -1.0)
        return {"y": torch.where(x.abs() > 1, inner, torch.where(x.abs() > 0.5, x, 0.0))}


@case(TOPIC, "logic of several conditions, any and all")
class Logic(Code):
    inputs = {"x": (3, 4)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        fallen = (x[:, 0] > 0.5) | (x[:, 1] < -0.5)
        healthy = ~fallen & torch.logical_not(x[:, 2] > 1) ^ (x[:, 3] == 0)
        return {"fallen": fallen, "healthy": healthy, "any": fallen.any(), "all": (x > 0).all(dim=1)}


@case(TOPIC, "latched until the reset")
class Latched(Code):
    def __init__(self) -> None:
        self.tripped = torch.zeros(1, dtype=torch.bool)

    def reset(self) -> None:
        self.tripped.fill_(False)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.tripped |= x.abs().amax(dim=-1) > 1.5
        return {"y": torch.where(self.tripped[:, None], torch.zeros_like(x), x), "tripped": self.tripped}


@case(TOPIC, "hysteresis")
class Hysteresis(Code):
    def __init__(self) -> None:
        self.on = torch.zeros(1, 4, dtype=torch.bool)

    def reset(self) -> None:
        self.on = torch.zeros(1, 4, dtype=torch.bool)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.on = torch.where(self.on, x > -0.5, x > 0.5)
        return {"on": self.on, "y": self.on.float() * x}


@case(TOPIC, "NaN and infinity replaced")
class NotFinite(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        broken = torch.log(x) / torch.relu(x - 0.5)
        return {"y": torch.nan_to_num(broken, nan=0.0, posinf=5.0, neginf=-5.0), "finite": torch.isfinite(broken)}


@case(TOPIC, "NaN that is given out")
class NanOut(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        root = torch.sqrt(x)
        return {"bad": root.isnan(), "y": torch.where(root.isnan(), -1.0, root)}


@case(TOPIC, "what every operation makes of NaN", "precision")
class NanSemantics(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        root = torch.sqrt(x)
        made = {
            "relu": torch.relu(root),
            "clamp": root.clamp(0.1, 0.5),
            "maximum": torch.maximum(root, torch.zeros(1, 4)),
            "amax": root.amax(-1),
            "elu": torch.nn.functional.elu(root),
            "hardtanh": torch.nn.functional.hardtanh(root),
            "fmax": torch.fmax(root, torch.tensor(0.2)),
            "sum": root.nansum(-1),
        }
        flags = {f"{name}_nan": value.isnan() for name, value in made.items()}
        return (
            flags
            | {name: value.nan_to_num(-1.0) for name, value in made.items()}
            | {"less": root < 0.5, "same": root == root}
        )


@case(TOPIC, "a state machine with integer states")
class Machine(Code):
    def __init__(self) -> None:
        self.state = torch.zeros(1, dtype=torch.long)

    def reset(self) -> None:
        self.state.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        up, down = x[:, 0] > 0.3, x[:, 1] > 0.6
        following = torch.where(up, self.state + 1, self.state)
        self.state = torch.where(down, torch.zeros_like(following), following).clamp(max=3)
        gains = torch.tensor([0.0, 0.5, 1.0, 2.0])
        return {"state": self.state, "y": x * gains[self.state].unsqueeze(-1)}
