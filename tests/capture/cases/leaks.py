"""Values that leave the graph into Python."""

from __future__ import annotations

import copy
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from capture.cases.registry import Code, case

TOPIC = "leak"


def _setting(generator: torch.Generator) -> torch.Tensor:
    """Constant while recorded, another constant when the package is compared with the code."""
    return torch.tensor(float(generator.initial_seed()))


@case(TOPIC, "item()", "value_leak")
class Item(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * x[0, 0].item()}


@case(TOPIC, "float() of something that is constant during the recording", "value_leak")
class ConstantDuringRecording(Code):
    inputs = {"x": (1, 4), "mode": _setting}

    def step(self, x: torch.Tensor, mode: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * float(mode) + mode * 0}


@case(TOPIC, "int() to count with", "value_leak")
class Int(Code):
    inputs = {"x": (1, 4), "n": lambda generator: torch.tensor(3)}

    def step(self, x: torch.Tensor, n: torch.Tensor) -> dict[str, torch.Tensor]:
        for _ in range(int(n)):
            x = x * 0.9
        return {"y": x + n * 0}


@case(TOPIC, "range over a tensor", "value_leak")
class Range(Code):
    inputs = {"x": (1, 4), "n": lambda generator: torch.tensor(3)}

    def step(self, x: torch.Tensor, n: torch.Tensor) -> dict[str, torch.Tensor]:
        for _ in range(n):
            x = x * 0.9
        return {"y": x + n * 0}


@case(TOPIC, "tolist() and back", "value_leak")
class ToList(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": torch.tensor([[2 * value for value in x[0].tolist()]])}


@case(TOPIC, "numpy() and back", "value_leak")
class Numpy(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": torch.from_numpy(np.tanh(x.numpy()))}


@case(TOPIC, "detach().cpu().numpy() for one term only", "value_leak")
class NumpyTerm(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        norm = np.linalg.norm(x.detach().cpu().numpy())
        return {"y": x / float(norm)}


@case(TOPIC, "np.asarray and numpy functions on tensors", "value_leak", spelling=True)
class AsArray(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": torch.as_tensor(np.clip(np.asarray(x), -0.5, 0.5))}


@case(TOPIC, "math functions of a tensor", "value_leak")
class MathFunction(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * math.cos(x[0, 0])}


@case(TOPIC, "a branch on a tensor, both sides seen", "value_leak")
class Branch(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * 2 if x[0, 0] > 0 else x * 3}


@case(TOPIC, "a branch on a tensor that the recording never takes", "value_leak")
class BranchNotTaken(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if x.abs().max() > 100:
            x = torch.zeros_like(x)
        return {"y": x * 2}


@case(TOPIC, "a branch that only changes the state, never taken", "value_leak")
class StateBranchNotTaken(Code):
    def __init__(self) -> None:
        self.gain = torch.ones(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if (x > 3.5).any():
            self.gain = self.gain * 0.5
        return {"y": x * self.gain}


@case(TOPIC, "torch.equal and torch.allclose", "value_leak")
class Equal(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if torch.equal(x, torch.zeros_like(x)) or torch.allclose(x, torch.ones_like(x)):
            return {"y": x}
        return {"y": x * 2}


@case(TOPIC, "Python's max of two tensors", "value_leak")
class BuiltinMax(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * max(x[0, 0], x[0, 1])}


@case(TOPIC, "Python's and, or, not", "value_leak", spelling=True)
class BuiltinLogic(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * 2 if (x[0, 0] > 9 and not x[0, 1] < -9) else x + 1}


@case(TOPIC, "a chained comparison", "value_leak", spelling=True)
class Chained(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * (-9.0 < x[0, 0] < 9.0)}


@case(TOPIC, "tensors put into a list for torch.tensor", "value_leak")
class TensorOfTensors(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        forward, turn = x[0, 0] * 2, x[0, 1] * 3
        return {"y": torch.tensor([[forward, turn]]), "z": x * 2}


@case(TOPIC, "tensors put into a list for torch.as_tensor, with a state", "python_value")
class AsTensorOfTensors(Code):
    def __init__(self) -> None:
        self.phase = torch.zeros(())

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.phase = self.phase + 0.1
        return {"y": torch.cat((x, torch.as_tensor([[self.phase, 1.0]])), dim=-1)}


@case(TOPIC, "a tensor where torch.full expects a number", "value_leak", spelling=True)
class FullOfTensor(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x + torch.full((1, 4), x[0, 0])}


@case(TOPIC, "a tensor where an option expects a number", "value_leak", spelling=True)
class OptionOfTensor(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": torch.add(x, x, alpha=x[0, 0]) + torch.nn.functional.leaky_relu(x, x[0, 1].abs().item())}


@case(TOPIC, "an option that is a tensor, read by torch itself", "value_leak", spelling=True)
class AlphaOfTensor(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": torch.add(x, x, alpha=x[0, 0])}


@case(TOPIC, "a range that ends at a tensor", "value_leak", spelling=True)
class ArangeOfTensor(Code):
    inputs = {"x": (1, 4), "n": lambda generator: torch.tensor(4)}

    def step(self, x: torch.Tensor, n: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x + torch.arange(n) + n}


@case(TOPIC, "a value read inside an assertion and used after it", "value_leak", spelling=True)
class Walrus(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        assert (gain := float(x.abs().max())) >= 0  # noqa: RUF018
        return {"y": x * gain}


@case(TOPIC, "a constant read inside an assertion and used after it", "value_leak", spelling=True)
class ConstantWalrus(Code):
    inputs = {"x": (1, 4), "mode": _setting}

    def step(self, x: torch.Tensor, mode: torch.Tensor) -> dict[str, torch.Tensor]:
        assert (gain := float(mode)) >= 0  # noqa: RUF018
        return {"y": x * gain + mode}


@case(TOPIC, "tensors that are constant while recorded, put into a list for torch.tensor", "value_leak", spelling=True)
class TensorOfConstantTensors(Code):
    inputs = {"x": (1, 4), "mode": _setting}

    def step(self, x: torch.Tensor, mode: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * torch.tensor([mode, mode, 1.0, 1.0]) + mode}


@case(TOPIC, "tensors that are constant while recorded, put into a list for torch.Tensor", "value_leak", spelling=True)
class LegacyTensorOfTensors(Code):
    inputs = {"x": (1, 4), "mode": _setting}

    def step(self, x: torch.Tensor, mode: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * torch.Tensor([mode, mode, 1.0, 1.0]) + mode}


@case(TOPIC, "tensors that are constant while recorded, put into a list for new_tensor", "value_leak", spelling=True)
class NewTensorOfTensors(Code):
    inputs = {"x": (1, 4), "mode": _setting}

    def step(self, x: torch.Tensor, mode: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * x.new_tensor([mode, mode, 1.0, 1.0]) + mode}


@case(TOPIC, "a tensor where full_like expects a number", "value_leak", spelling=True)
class FullLikeOfTensor(Code):
    inputs = {"x": (1, 4), "mode": _setting}

    def step(self, x: torch.Tensor, mode: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * torch.full_like(x, mode) + mode}


@case(TOPIC, "a tensor copied by torch.tensor")
class TensorOfTensor(Code):
    inputs = {"x": (1, 4), "mode": _setting}

    def step(self, x: torch.Tensor, mode: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * torch.tensor(mode) + torch.as_tensor(mode) + torch.asarray(mode, copy=True)}


@case(TOPIC, "a tensor copied by copy.deepcopy")
class Deepcopy(Code):
    def __init__(self) -> None:
        self.last = torch.zeros(1, 4)

    def reset(self) -> None:
        self.last = torch.zeros(1, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x - self.last
        self.last = copy.deepcopy(x)
        return {"y": y}


@case(TOPIC, "a constant input copied by copy.deepcopy and used in the same step")
class DeepcopyOfConstant(Code):
    inputs = {"x": (1, 4), "mode": _setting}

    def step(self, x: torch.Tensor, mode: torch.Tensor) -> dict[str, torch.Tensor]:
        settings = copy.deepcopy({"gain": mode})
        return {"y": x * settings["gain"] + mode}


@case(TOPIC, "a Python function applied to every element", "not_reproduced", spelling=True)
class Applied(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x * 2
        y.apply_(math.atan)
        return {"y": y + x}


@case(TOPIC, "an array over a computed tensor's memory, by dlpack", "value_leak", spelling=True)
class Dlpack(Code):
    inputs = {"x": (1, 4), "mode": _setting}

    def step(self, x: torch.Tensor, mode: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * float(np.from_dlpack(mode)) + mode}


@case(TOPIC, "a constant read through its storage", "value_leak", spelling=True)
class Storage(Code):
    inputs = {"x": (1, 4), "mode": _setting}

    def step(self, x: torch.Tensor, mode: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * mode.untyped_storage().tolist()[2] + mode}


@case(TOPIC, "Python's round, abs and divmod of tensors")
class Builtins(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"a": abs(x), "b": x.__round__() if hasattr(x, "__round__") else x.round(), "c": +x - -x, "d": pow(x, 2)}


@case(TOPIC, "a constant that an array shares, read by numpy", "value_leak", spelling=True)
class ConstantThroughNumpy(Code):
    inputs = {"x": (1, 4), "mode": _setting}

    def step(self, x: torch.Tensor, mode: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * float(np.square(mode)) + mode}


@case(TOPIC, "a constant by which a distribution is checked, and by which it is not", "value_leak", spelling=True)
class BranchOnConstant(Code):
    inputs = {"x": (1, 4), "mode": _setting}

    def step(self, x: torch.Tensor, mode: torch.Tensor) -> dict[str, torch.Tensor]:
        y = torch.distributions.Normal(x, mode).mean
        return {"y": y * 2 + mode if mode > 1.5 else y + mode}


@case(TOPIC, "a set of values", "value_leak", spelling=True)
class InAList(Code):
    inputs = {"x": (1, 4), "mode": lambda generator: torch.tensor(1)}

    def step(self, x: torch.Tensor, mode: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * 2 if mode in (1, 2) else x + mode}


@case(TOPIC, "match on a value", "value_leak", spelling=True)
class Table(Code):
    inputs = {"x": (1, 4), "mode": lambda generator: torch.tensor(1)}
    gains = {0: 1.0, 1: 2.0}

    def step(self, x: torch.Tensor, mode: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * self.gains[mode.item()] + mode * 0}


@case(TOPIC, "a loop until it converges", "value_leak")
class Converges(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x.abs() + 1
        while (y.square() - x.abs() - 1).abs().max() > 1e-4:
            y = 0.5 * (y + (x.abs() + 1) / y)
        return {"y": y}


@case(TOPIC, "a leak that is only logged")
class OnlyLogged(Code):
    def __init__(self) -> None:
        self.log: dict[str, str] = {}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x * 2
        self.log["y"] = f"{y.norm():.2f}"
        return {"y": y}


@case(TOPIC, "a state read through an array that shares its memory", "python_value", spelling=True)
class SharedArray(Code):
    def __init__(self) -> None:
        self.state = torch.zeros(1, 4)
        self.array = self.state.numpy()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.state.copy_(x)
        return {"y": x * float(self.array[0, 0]) + self.state}


@case(TOPIC, "an array that shares a state's memory is written in the step", "outside_write", spelling=True)
class SharedArrayWritten(Code):
    def __init__(self) -> None:
        self.state = torch.zeros(1, 4)
        self.array = self.state.numpy()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.state += x
        y = self.state * 2
        self.array *= 0.5
        return {"y": y}


@case(TOPIC, "the step's work done in another thread", "undeclared_input", spelling=True)
class OtherThread(Code):
    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.pool.submit(torch.tanh, x).result()}


@case(TOPIC, "part of the step's work done in another thread", "undeclared_input", spelling=True)
class PartInOtherThread(Code):
    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.pool.submit(torch.tanh, x).result() + x}


@case(TOPIC, "an in-place change in another thread", "not_reproduced", spelling=True)
class InPlaceInOtherThread(Code):
    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x * 2
        self.pool.submit(y.tanh_).result()
        return {"y": y + 1}
