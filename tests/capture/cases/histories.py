"""Observation histories."""

from __future__ import annotations

from collections import deque

import torch

from capture.cases.registry import Code, case

TOPIC = "history"


@case(TOPIC, "shifted in place, newest last")
class ShiftedInPlace(Code):
    def __init__(self) -> None:
        self.buffer = torch.zeros(1, 3, 4)

    def reset(self) -> None:
        self.buffer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer[:, :-1] = self.buffer[:, 1:].clone()
        self.buffer[:, -1] = x
        return {"y": self.buffer.reshape(1, 12) * 2}


@case(TOPIC, "shifted in place, newest first, through flat columns")
class ShiftedFlat(Code):
    def __init__(self) -> None:
        self.buffer = torch.zeros(1, 12)

    def reset(self) -> None:
        self.buffer[:] = 0.0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer[:, 4:] = self.buffer[:, :-4].clone()
        self.buffer[:, :4] = x
        return {"y": self.buffer}


@case(TOPIC, "torch.roll and a write, bound anew")
class Rolled(Code):
    def __init__(self) -> None:
        self.buffer = torch.zeros(1, 3, 4)

    def reset(self) -> None:
        self.buffer[:] = 0.0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer = torch.roll(self.buffer, shifts=-1, dims=1)
        self.buffer[:, -1] = x
        return {"y": self.buffer.flatten(1)}


@case(TOPIC, "rolled into itself with copy_")
class RolledIntoItself(Code):
    def __init__(self) -> None:
        self.buffer = torch.full((1, 3, 4), 0.5)

    def reset(self) -> None:
        self.buffer.fill_(0.5)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer.copy_(self.buffer.roll(1, 1))
        self.buffer[:, 0] = x
        return {"y": self.buffer.mean(1)}


@case(TOPIC, "concatenated with the newest, oldest cut off")
class Concatenated(Code):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.buffer = torch.zeros(1, 12)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer = torch.cat((self.buffer[:, 4:], x), dim=-1)
        return {"y": self.buffer.clone()}


@case(TOPIC, "a deque of tensors, stacked")
class Deque(Code):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.frames = deque((torch.zeros(1, 4) for _ in range(3)), maxlen=3)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.frames.append(x)
        return {"y": torch.stack(tuple(self.frames), dim=1)}


@case(TOPIC, "a list, the oldest popped, computed values appended")
class ListOfComputed(Code):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.frames = [torch.zeros(1, 4) for _ in range(4)]

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.frames.pop(0)
        self.frames.append(torch.tanh(x) + self.frames[-1])
        return {"y": torch.cat(self.frames[::2], dim=-1)}


@case(TOPIC, "a list of tensors used in turn, the oldest overwritten in place")
class RecycledList(Code):
    def __init__(self) -> None:
        self.frames = [torch.zeros(1, 4) for _ in range(3)]

    def reset(self) -> None:
        for frame in self.frames:
            frame.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        oldest = self.frames.pop(0)
        oldest.copy_(x)
        self.frames.append(oldest)
        return {"y": torch.cat(self.frames, dim=-1)}


@case(TOPIC, "a list shifted value by value in a loop")
class ShiftedInALoop(Code):
    def __init__(self) -> None:
        self.frames = [torch.zeros(1, 4) for _ in range(3)]

    def reset(self) -> None:
        for frame in self.frames:
            frame.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        for index in range(2, 0, -1):
            self.frames[index][:] = self.frames[index - 1]
        self.frames[0][:] = x
        return {"y": self.frames[2] - self.frames[0]}


@case(TOPIC, "a history for each observation term, in a dict")
class PerTerm(Code):
    inputs = {"gyro": (1, 3), "joints": (1, 2)}

    def __init__(self) -> None:
        self.terms = {"gyro": torch.zeros(1, 2, 3), "joints": torch.zeros(1, 3, 2)}

    def reset(self) -> None:
        for buffer in self.terms.values():
            buffer[:] = 0

    def step(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        for name, buffer in self.terms.items():
            self.terms[name] = torch.cat((buffer[:, 1:], inputs[name].unsqueeze(1)), dim=1)
        return {"y": torch.cat([buffer.flatten(1) for buffer in self.terms.values()], dim=-1)}


@case(TOPIC, "a ring written at a pointer that is a tensor on its own")
class RingScalarTensor(Code):
    def __init__(self) -> None:
        self.ring, self.pointer = torch.zeros(3, 1, 4), torch.zeros((), dtype=torch.long)

    def reset(self) -> None:
        self.ring.zero_()
        self.pointer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.ring[self.pointer] = x
        self.pointer = (self.pointer + 1) % 3
        return {"y": self.ring[self.pointer] + self.ring.sum(0)}


@case(TOPIC, "a ring with a pointer for each environment, fancy indices")
class RingFancy(Code):
    inputs = {"x": (2, 4)}

    def __init__(self) -> None:
        self.ring, self.pointer = torch.zeros(2, 3, 4), torch.zeros(2, dtype=torch.long)
        self.rows = torch.arange(2)

    def reset(self) -> None:
        self.ring[:] = 0
        self.pointer[:] = 0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.pointer += 1
        self.pointer %= 3
        self.ring[self.rows, self.pointer] = x
        oldest = (self.pointer + 1) % 3
        return {"y": self.ring[self.rows, oldest]}


@case(TOPIC, "a ring written with a one-hot of its pointer")
class RingOneHot(Code):
    def __init__(self) -> None:
        self.ring, self.pointer = torch.zeros(1, 3, 4), torch.zeros(1, dtype=torch.long)

    def reset(self) -> None:
        self.ring.zero_()
        self.pointer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        hot = torch.nn.functional.one_hot(self.pointer, 3).unsqueeze(-1).float()
        self.ring = self.ring * (1 - hot) + x.unsqueeze(1) * hot
        self.pointer = torch.remainder(self.pointer + 1, 3)
        return {"y": self.ring.flatten(1)}


@case(TOPIC, "a ring written by scatter_ and read by gather")
class RingScatter(Code):
    def __init__(self) -> None:
        self.ring, self.pointer = torch.zeros(1, 3, 4), torch.zeros(1, 1, 4, dtype=torch.long)

    def reset(self) -> None:
        self.ring.zero_()
        self.pointer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.ring.scatter_(1, self.pointer, x.unsqueeze(1))
        self.pointer.add_(1).remainder_(3)
        return {"y": self.ring.gather(1, self.pointer)[:, 0]}


@case(TOPIC, "a ring read in order of age by a computed index")
class RingUnrolled(Code):
    def __init__(self) -> None:
        self.ring, self.pointer = torch.zeros(3, 1, 4), torch.zeros(1, dtype=torch.long)

    def reset(self) -> None:
        self.ring.zero_()
        self.pointer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.ring.index_copy_(0, self.pointer, x.unsqueeze(0))
        order = (self.pointer - torch.arange(3)) % 3
        self.pointer = (self.pointer + 1) % 3
        return {"y": self.ring[order].transpose(0, 1).flatten(1)}


@case(TOPIC, "a ring with a pointer that is a number", "python_value")
class RingNumber(Code):
    def __init__(self) -> None:
        self.ring, self.pointer = torch.zeros(3, 1, 4), 0

    def reset(self) -> None:
        self.ring.zero_()
        self.pointer = 0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.ring[self.pointer] = x
        self.pointer = (self.pointer + 1) % 3
        return {"y": self.ring.flatten().unsqueeze(0)}


@case(TOPIC, "a ring whose pointer is a number that the recording sees only once per value", "python_value")
class LongRingNumber(Code):
    def __init__(self) -> None:
        self.ring, self.pointer = torch.zeros(50, 1, 4), 0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.ring[self.pointer] = x
        self.pointer = (self.pointer + 1) % 50
        return {"y": self.ring.sum(0)}


@case(TOPIC, "filled with the first observation by a branch", "first_step")
class BackfilledByBranch(Code):
    def __init__(self) -> None:
        self.buffer: torch.Tensor | None = None

    def reset(self) -> None:
        self.buffer = None

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.buffer is None:
            self.buffer = x.unsqueeze(1).repeat(1, 3, 1)
        else:
            self.buffer = torch.cat((self.buffer[:, 1:], x.unsqueeze(1)), dim=1)
        return {"y": self.buffer.flatten(1)}


@case(TOPIC, "filled with the first observation where a counter tensor is zero")
class BackfilledByWhere(Code):
    def __init__(self) -> None:
        self.buffer, self.pushes = torch.zeros(1, 3, 4), torch.zeros(1, dtype=torch.long)

    def reset(self) -> None:
        self.buffer.zero_()
        self.pushes.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        fresh = (self.pushes == 0)[:, None, None]
        shifted = torch.cat((self.buffer[:, 1:], x[:, None]), dim=1)
        self.buffer[:] = torch.where(fresh, x[:, None].expand(-1, 3, -1), shifted)
        self.pushes += 1
        return {"y": self.buffer.flatten(1)}


@case(TOPIC, "filled with the first observation where rows are fresh, by a mask")
class BackfilledByMask(Code):
    inputs = {"x": (2, 4)}

    def __init__(self) -> None:
        self.buffer, self.fresh = torch.zeros(3, 2, 4), torch.ones(2, dtype=torch.bool)

    def reset(self) -> None:
        self.fresh[:] = True

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer[:-1] = self.buffer[1:].clone()
        self.buffer[-1] = x
        self.buffer = torch.where(self.fresh[None, :, None], x[None], self.buffer)
        self.fresh[:] = False
        return {"y": self.buffer.transpose(0, 1).flatten(1)}


@case(TOPIC, "a deque that grows until it is full", "control_flow")
class GrowingDeque(Code):
    def __init__(self) -> None:
        self.frames: deque[torch.Tensor] = deque(maxlen=5)

    def reset(self) -> None:
        self.frames.clear()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.frames.append(x)
        return {"y": torch.stack(tuple(self.frames)).mean(0)}


@case(TOPIC, "every second frame of a long history")
class Strided(Code):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.buffer = torch.zeros(1, 7, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer = torch.cat([x[:, None], self.buffer[:, :-1]], dim=1)
        return {"y": self.buffer[:, ::2].reshape(1, -1), "last": self.buffer[:, -1]}


@case(TOPIC, "a long history, shorter recordings than history")
class LongerThanTheRecording(Code):
    def __init__(self) -> None:
        self.buffer = torch.zeros(1, 20, 4)

    def reset(self) -> None:
        self.buffer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.buffer = torch.cat((self.buffer[:, 1:], x[:, None]), dim=1)
        return {"y": self.buffer[:, 0], "z": self.buffer[:, 10] - x}


@case(TOPIC, "a deque longer than any recorded episode", "too_few_steps")
class LongDeque(Code):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.frames = deque([torch.zeros(1, 4)] * 10, maxlen=10)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.frames.append(x.clone())
        return {"y": self.frames[0] + self.frames[-2]}


@case(TOPIC, "a long deque, recorded for longer")
class LongDequeSeen(Code):
    steps = 30
    resets = (14,)

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.frames = deque([torch.zeros(1, 4)] * 10, maxlen=10)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.frames.append(x.clone())
        return {"y": self.frames[0] + self.frames[-2]}
