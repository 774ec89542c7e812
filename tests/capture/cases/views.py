"""Views: of states, of inputs, of outputs, held and made."""

from __future__ import annotations

import torch

from capture.cases.registry import Code, case

TOPIC = "view"


@case(TOPIC, "written through a view of a column")
class Column(Code):
    def __init__(self) -> None:
        self.buffer = torch.zeros(1, 3, 4)

    def reset(self) -> None:
        self.buffer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        newest = self.buffer[:, 0]
        newest += x
        newest *= 0.5
        return {"y": self.buffer.flatten(1)}


@case(TOPIC, "written through a transposed view")
class Transposed(Code):
    def __init__(self) -> None:
        self.buffer = torch.zeros(4, 3)

    def reset(self) -> None:
        self.buffer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        turned = self.buffer.T
        turned[1] += x[0]
        turned.t()[:, 2].sub_(x[0])
        return {"y": self.buffer}


@case(TOPIC, "written through narrow, select, unbind, split and chunk")
class Pieces(Code):
    inputs = {"x": (1, 8)}

    def __init__(self) -> None:
        self.buffer = torch.zeros(1, 8)

    def reset(self) -> None:
        self.buffer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer.narrow(1, 0, 2).copy_(x[:, :2])
        self.buffer.select(1, 2).add_(x[:, 2])
        left, right = self.buffer.split(4, dim=1)
        right.lerp_(x[:, 4:], 0.5)
        left.chunk(2, dim=1)[1].mul_(0.9)
        for value in self.buffer.unbind(1):
            value.clamp_(-1, 1)
        return {"y": self.buffer}


@case(TOPIC, "written through a diagonal")
class Diagonal(Code):
    inputs = {"x": (3,)}

    def __init__(self) -> None:
        self.matrix = torch.eye(3)

    def reset(self) -> None:
        self.matrix.copy_(torch.eye(3))

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.matrix.diagonal().mul_(0.5).add_(x)
        torch.diagonal(self.matrix, 1)[:] = x[:2]
        return {"y": self.matrix, "d": torch.diag(self.matrix), "full": torch.diag_embed(x)}


@case(TOPIC, "written through reshape and view of the same memory")
class Reshaped(Code):
    def __init__(self) -> None:
        self.buffer = torch.zeros(2, 6)

    def reset(self) -> None:
        self.buffer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer.view(3, 4)[1] = x
        self.buffer.reshape(-1)[::3] += 1.0
        self.buffer.unsqueeze(0).squeeze()[0, -1] = x[0, 0]
        return {"y": self.buffer.flatten().clone()}


@case(TOPIC, "a copy by reshape that is no view")
class ReshapedCopy(Code):
    def __init__(self) -> None:
        self.buffer = torch.zeros(4, 3)

    def reset(self) -> None:
        self.buffer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer.T.reshape(-1)[0] = 7.0
        self.buffer[:, 0] += x[0]
        return {"y": self.buffer}


@case(TOPIC, "views that the object holds since it was made")
class HeldViews(Code):
    inputs = {"root": (1, 7), "joints": (1, 3)}

    def __init__(self) -> None:
        self.state = torch.zeros(1, 10)
        self.position, self.joints = self.state[:, :3], self.state[:, 7:]

    def reset(self) -> None:
        self.state.zero_()

    def step(self, root: torch.Tensor, joints: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.position + self.joints
        self.state[:, :7] = root
        self.joints.add_(joints)
        return {"y": y, "height": self.position[:, 2]}


@case(TOPIC, "views that the object holds of a buffer that nothing else holds")
class HeldViewsOnly(Code):
    def __init__(self) -> None:
        memory = torch.zeros(1, 8)
        self.last, self.total = memory[:, :4], memory.view(2, 4)[1:]

    def reset(self) -> None:
        self.last.zero_()
        self.total.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.total += x - self.last
        self.last[:] = x
        return {"y": self.total}


@case(TOPIC, "two states that overlap")
class Overlapping(Code):
    def __init__(self) -> None:
        memory = torch.zeros(6)
        self.left, self.right = memory[:4], memory[2:]

    def reset(self) -> None:
        self.left.zero_()
        self.right.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.left.mul_(0.5).add_(x[0])
        self.right.add_(x[0], alpha=0.1)
        return {"left": self.left, "right": self.right}


@case(TOPIC, "two names of one state")
class TwoNames(Code):
    def __init__(self) -> None:
        self.actions = torch.zeros(1, 4)
        self.alias = self.actions

    def reset(self) -> None:
        self.alias.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.alias * 0.5
        self.actions += x
        return {"y": y + self.alias}


@case(TOPIC, "an output that is a view of a state")
class OutputIsAView(Code):
    def __init__(self) -> None:
        self.buffer = torch.zeros(1, 2, 4)

    def reset(self) -> None:
        self.buffer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer[:, 0] = self.buffer[:, 1]
        self.buffer[:, 1] = x
        return {"old": self.buffer[:, 0], "all": self.buffer, "same": self.buffer}


@case(TOPIC, "an output buffer that each step overwrites")
class OverwrittenOutput(Code):
    def __init__(self) -> None:
        self.out = torch.zeros(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.out[:] = torch.tanh(x)
        return {"y": self.out}


@case(TOPIC, "an output that becomes the state")
class OutputIsTheState(Code):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.h = torch.ones(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = torch.tanh(self.h + x)
        self.h = y
        y = y.mul_(0.5)
        return {"y": y}


@case(TOPIC, "expanded and read")
class Expanded(Code):
    def __init__(self) -> None:
        self.gravity = torch.tensor([[0.0, 0.0, -1.0]])

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        spread = self.gravity.expand(4, 3)
        return {"y": spread * x.T, "z": x.expand(3, -1), "w": self.gravity.repeat(2, 2) + x.sum()}


@case(TOPIC, "flipped and rotated")
class Flipped(Code):
    inputs = {"x": (1, 3, 4)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"a": x.flip(-1), "b": torch.flip(x, dims=(1, 2)), "c": torch.rot90(x, 1, (1, 2)), "d": x.fliplr()}


@case(TOPIC, "permuted, moved and swapped axes")
class Permuted(Code):
    inputs = {"x": (2, 3, 4)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"a": x.permute(2, 0, 1), "b": x.movedim(0, -1), "c": x.swapaxes(0, 1).contiguous(), "d": x.mT @ x}


@case(TOPIC, "windows by unfold and as_strided")
class Windows(Code):
    inputs = {"x": (1, 8)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        windows = x.unfold(1, 4, 2)
        return {"y": windows.mean(-1), "z": torch.as_strided(x, (3, 2), (3, 1)) * 2}


@case(TOPIC, "written through as_strided")
class WrittenStrided(Code):
    def __init__(self) -> None:
        self.buffer = torch.zeros(8)

    def reset(self) -> None:
        self.buffer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer.as_strided((4,), (2,)).add_(x[0])
        return {"y": self.buffer}


@case(TOPIC, "a view of a view, made in the step and kept for the next")
class KeptView(Code):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.tail = torch.zeros(1, 2)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x[:, :2] + self.tail
        self.tail = (x * 2)[:, 1:][:, 1:]
        return {"y": y}


@case(TOPIC, "a kept view of a state that later steps write")
class ViewKeptOfState(Code):
    def __init__(self) -> None:
        self.buffer = torch.zeros(1, 4)
        self.seen = self.buffer[:, 1]

    def reset(self) -> None:
        self.buffer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        before = self.seen.clone()
        self.buffer.mul_(0.9)
        self.buffer.add_(x)
        self.seen = self.buffer.view(-1)[1:2]
        return {"y": before + self.seen}


@case(TOPIC, "real numbers seen as complex ones")
class ComplexView(Code):
    inputs = {"x": (1, 2, 2)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        turned = torch.view_as_complex(x) * torch.polar(torch.ones(2), torch.tensor([0.1, 0.2]))
        return {"y": torch.view_as_real(turned)}
