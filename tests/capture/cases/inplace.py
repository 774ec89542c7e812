"""Operations that write into tensors."""

from __future__ import annotations

import torch

from capture.cases.registry import Code, case

TOPIC = "in place"


class _Buffer(Code):
    def __init__(self) -> None:
        self.buffer = torch.zeros(3, 4)

    def reset(self) -> None:
        self.buffer.zero_()


@case(TOPIC, "scatter_ and scatter_add_")
class Scatter(_Buffer):
    inputs = {"x": (3, 4), "index": lambda generator: torch.rand(3, 4, generator=generator).argsort(0)}

    def step(self, x: torch.Tensor, index: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer.scatter_(0, index, x)
        self.buffer.scatter_add_(0, index[:1], x[:1])
        self.buffer.scatter_(1, index[:, :1], 0.25)
        return {"y": self.buffer}


@case(TOPIC, "scatter_reduce_ with amax and mean")
class ScatterReduce(_Buffer):
    inputs = {"x": (3, 4), "index": lambda generator: torch.randint(0, 3, (3, 4), generator=generator)}

    def step(self, x: torch.Tensor, index: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer.mul_(0.5).scatter_reduce_(0, index, x, reduce="amax")
        mean = torch.zeros(3, 4).scatter_reduce(0, index, x, reduce="sum", include_self=True)
        return {"y": self.buffer, "mean": mean}


@case(TOPIC, "index_copy_ by a constant index")
class IndexCopy(_Buffer):
    def __init__(self) -> None:
        super().__init__()
        self.index = torch.tensor([2, 0])

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer.index_copy_(0, self.index, torch.cat((x, -x)) + self.buffer[1])
        self.buffer[1].add_(0.1)
        return {"y": self.buffer}


@case(TOPIC, "index_fill_ and index_add_ by an index that is an input")
class IndexFillAdd(_Buffer):
    inputs = {"x": (2, 4), "index": lambda generator: torch.randint(0, 3, (2,), generator=generator)}

    def step(self, x: torch.Tensor, index: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer.index_add_(0, index, x, alpha=0.5)
        self.buffer.index_fill_(1, index[:1], 0.75)
        return {"y": self.buffer}


@case(TOPIC, "put_ at flat places")
class Put(_Buffer):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer.put_(torch.tensor([0, 5, 10, 11]), x[0])
        self.buffer.put_(torch.tensor([1, 1]), x[0, :2], accumulate=True)
        return {"y": self.buffer * 2}


@case(TOPIC, "index_put_ that accumulates over repeated places")
class Accumulate(_Buffer):
    inputs = {"x": (4,), "index": lambda generator: torch.randint(0, 3, (4,), generator=generator)}

    def step(self, x: torch.Tensor, index: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer.index_put_((index, torch.zeros(4, dtype=torch.long)), x, accumulate=True)
        return {"y": self.buffer}


@case(TOPIC, "masked_fill_ and masked_scatter_")
class Masked(_Buffer):
    inputs = {"x": (3, 4)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer += x
        self.buffer.masked_fill_(self.buffer > 1.0, 0.5)
        self.buffer.masked_scatter_(self.buffer < -1.0, x.abs())
        return {"y": self.buffer}


@case(TOPIC, "copy_ that broadcasts and changes the dtype")
class CopyBroadcast(_Buffer):
    inputs = {"x": lambda generator: torch.randint(-5, 5, (4,), generator=generator)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer[1:].copy_(x)
        self.buffer[0] += x
        return {"y": self.buffer}


@case(TOPIC, "fill_ with a tensor that is one number")
class FillTensor(_Buffer):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer[1].fill_(x[0, 2])
        self.buffer[2, 3] = x[0, 0]
        self.buffer.clamp_(-0.5, 0.5)
        return {"y": self.buffer}


@case(TOPIC, "augmented assignments of all kinds")
class Augmented(_Buffer):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer += x
        self.buffer *= 0.5
        self.buffer -= 0.1
        self.buffer /= 1.5
        self.buffer.tanh_()
        self.buffer **= 2
        self.buffer[0] //= 0.1
        self.buffer[1] %= 0.3
        return {"y": self.buffer}


@case(TOPIC, "activations in place")
class Activations(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        a = (x * 2).relu_()
        b = (x + 1).sigmoid_().neg_().exp_()
        c = torch.nn.functional.elu(x * 3, inplace=True)
        return {"y": a + b + c + (x - 1).tanh_().abs_().sqrt_()}


@case(TOPIC, "the input itself is changed")
class OnTheInput(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        x *= 2
        x.clamp_(-1, 1)
        x[:, 0] = 0.5
        return {"y": x}


@case(TOPIC, "the input is changed after a view of it was taken")
class ViewOfTheInput(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        head, before = x[:, :2], x.clone()
        x += 1
        return {"head": head * 1.0, "before": before}


@case(TOPIC, "the kept input is changed in the next step")
class KeptInput(Code):
    def __init__(self) -> None:
        self.kept = torch.zeros(1, 4)

    def reset(self) -> None:
        self.kept = torch.zeros(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.kept += x
        y = self.kept.clone()
        self.kept = x
        return {"y": y}


@case(TOPIC, "a temporary that is filled piece by piece")
class FilledPieceByPiece(Code):
    inputs = {"velocity": (1, 3), "joints": (1, 4)}

    def step(self, velocity: torch.Tensor, joints: torch.Tensor) -> dict[str, torch.Tensor]:
        observation = torch.zeros(1, 9)
        observation[:, :3] = velocity * 0.25
        observation[0, 3:7] = joints[0]
        observation[:, 7:] = torch.tensor([1.0, -1.0])
        observation[:, 8] += velocity[:, 0]
        return {"observation": observation}


@case(TOPIC, "an empty tensor written by every joint in a loop")
class EmptyThenLoop(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = torch.empty_like(x)
        for joint in range(4):
            y[:, joint] = x[:, 3 - joint] * (joint + 1)
        return {"y": y}


@case(TOPIC, "a constant that a step changes and restores")
class ChangedAndRestored(Code):
    def __init__(self) -> None:
        self.default = torch.tensor([[0.1, 0.2, 0.3, 0.4]])

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.default += 1.0
        y = x - self.default
        self.default -= 1.0
        return {"y": y}


@case(TOPIC, "a scratch buffer that is written whole before it is read")
class Scratch(Code):
    def __init__(self) -> None:
        self.scratch = torch.empty(1, 8)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.scratch[:, :4] = x
        self.scratch[:, 4:] = x.square()
        return {"y": self.scratch.sum(-1)}


@case(TOPIC, "sorted and cumulated in place")
class CumulatedInPlace(_Buffer):
    inputs = {"x": (3, 4)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer.add_(x).cumsum_(dim=0).mul_(0.3)
        self.buffer[0].copy_(self.buffer[0].sort().values)
        return {"y": self.buffer}


@case(TOPIC, "transposed in place and swapped by set_")
class Swapped(Code):
    def __init__(self) -> None:
        self.value = torch.zeros(1, 4)

    def reset(self) -> None:
        self.value.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        following = self.value * 0.5 + x
        self.value.set_(following)
        return {"y": self.value * 2}


@case(TOPIC, "assigned through .data")
class Data(Code):
    def __init__(self) -> None:
        self.value, self.other = torch.zeros(1, 4), torch.zeros(1, 4)

    def reset(self) -> None:
        self.value.data = torch.zeros(1, 4)
        self.other.data.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.value.data = self.value * 0.5 + x
        self.other.data += x
        self.other.data[:, 0] = 1.0
        return {"y": self.value + self.other}


@case(TOPIC, "a row is reset where an input says so")
class RowReset(Code):
    inputs = {"x": (3, 4), "done": lambda generator: torch.rand(3, generator=generator) > 0.7}

    def __init__(self) -> None:
        self.buffer = torch.zeros(3, 4)

    def reset(self) -> None:
        self.buffer.zero_()

    def step(self, x: torch.Tensor, done: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer[done] = 0
        self.buffer += x
        return {"y": self.buffer}
