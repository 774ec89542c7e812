"""Reading and writing by index."""

from __future__ import annotations

import torch

from capture.cases.registry import Code, case

TOPIC = "index"


def _index(high: int, *shape: int):
    return lambda generator: torch.randint(0, high, shape, generator=generator)


@case(TOPIC, "index_select, a list, and a range of joints")
class Select(Code):
    def __init__(self) -> None:
        self.order = torch.tensor([3, 1, 0])

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"a": torch.index_select(x, 1, self.order), "b": x[:, [0, 2]], "c": x[..., 1:3], "d": x[:, self.order]}


@case(TOPIC, "gather and take_along_dim by an index that is an input")
class GatherByInput(Code):
    inputs = {"table": (2, 5), "index": _index(5, 2, 3)}

    def step(self, table: torch.Tensor, index: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"a": table.gather(1, index), "b": torch.take_along_dim(table, index, dim=1), "c": table.take(index)}


@case(TOPIC, "a row of a table, by a tensor that is one number")
class RowByScalar(Code):
    inputs = {"x": (1, 4), "mode": _index(3)}

    def __init__(self) -> None:
        self.gains = torch.arange(12.0).reshape(3, 4)

    def step(self, x: torch.Tensor, mode: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * self.gains[mode], "z": self.gains[mode, 1:], "w": self.gains[:, mode]}


@case(TOPIC, "an element written by tensors that are one number")
class ElementByScalars(Code):
    inputs = {"x": (1, 4), "row": _index(3), "column": _index(4)}

    def __init__(self) -> None:
        self.grid = torch.zeros(3, 4)

    def reset(self) -> None:
        self.grid.zero_()

    def step(self, x: torch.Tensor, row: torch.Tensor, column: torch.Tensor) -> dict[str, torch.Tensor]:
        self.grid[row, column] = x[0, 0]
        self.grid[row] += 0.5
        self.grid[0, column] = 2.0
        return {"grid": self.grid, "value": self.grid[row, column]}


@case(TOPIC, "pairs of indices, read and written")
class Pairs(Code):
    inputs = {"x": (2, 4), "index": _index(4, 2)}

    def __init__(self) -> None:
        self.rows = torch.arange(2)

    def step(self, x: torch.Tensor, index: torch.Tensor) -> dict[str, torch.Tensor]:
        picked = x[self.rows, index]
        y = x.clone()
        y[self.rows, index] = -1.0
        return {"picked": picked, "y": y}


@case(TOPIC, "negative indices, steps, None and an ellipsis")
class Slices(Code):
    inputs = {"x": (2, 3, 6)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"a": x[:, -1], "b": x[..., ::2], "c": x[:, None, 1:, 1:-1], "d": x[-1, ..., -2:], "e": x[:, 0:1, 5]}


@case(TOPIC, "negative numbers in an index tensor")
class NegativeTensor(Code):
    inputs = {"x": (1, 4), "index": lambda generator: torch.randint(-4, 4, (3,), generator=generator)}

    def step(self, x: torch.Tensor, index: torch.Tensor) -> dict[str, torch.Tensor]:
        y = torch.zeros(1, 4)
        y[:, index[:1]] = 5.0
        return {"picked": x[:, index], "y": y}


@case(TOPIC, "the motion of a reference trajectory at a frame counter")
class ReferenceMotion(Code):
    def __init__(self) -> None:
        self.motion, self.frame = torch.randn(20, 4), torch.zeros(1, dtype=torch.long)

    def reset(self) -> None:
        self.frame.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.frame = torch.clamp(self.frame + 1, max=19)
        ahead = torch.clamp(self.frame[:, None] + torch.tensor([[0, 1, 5]]), max=19)
        return {"error": x - self.motion[self.frame], "future": self.motion[ahead].flatten(1)}


@case(TOPIC, "interpolation between frames of a trajectory")
class Interpolated(Code):
    def __init__(self) -> None:
        self.motion, self.time = torch.randn(10, 4), torch.zeros(1)

    def reset(self) -> None:
        self.time.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.time = self.time + 0.3
        low = self.time.floor().long().clamp(0, 8)
        blend = (self.time - low).unsqueeze(-1)
        return {"y": x + torch.lerp(self.motion[low], self.motion[low + 1], blend)}


@case(TOPIC, "a lookup table with bucketize and searchsorted")
class LookupTable(Code):
    def __init__(self) -> None:
        self.edges, self.torques = torch.tensor([-1.0, -0.2, 0.3, 1.2]), torch.tensor([0.0, 1.0, 4.0, 2.0, 0.5])

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        bucket = torch.bucketize(x, self.edges)
        right = torch.searchsorted(self.edges, x, right=True)
        return {"torque": self.torques[bucket], "right": right}


@case(TOPIC, "argmax, one_hot, topk and sort")
class Choices(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        best = x.argmax(dim=-1)
        values, places = torch.topk(x, 2, dim=-1)
        ordered, order = torch.sort(x, dim=-1, descending=True)
        return {
            "best": best,
            "hot": torch.nn.functional.one_hot(best, 4),
            "top": values,
            "places": places,
            "ordered": ordered,
            "order": order,
            "ranks": x.argsort(dim=-1),
        }


@case(TOPIC, "smallest and largest with their places, along rows")
class Extremes(Code):
    inputs = {"x": (3, 4)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        low, where = x.min(dim=1)
        high = x.max(dim=0)
        return {
            "low": low,
            "where": where,
            "high": high.values,
            "at": high.indices,
            "all": x.amax(),
            "any": x.aminmax().min,
        }


@case(TOPIC, "the first of equal values")
class Ties(Code):
    inputs = {"x": (3, 8)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        x = x.round()
        ordered = torch.sort(x, dim=1, stable=True)
        return {
            "argmax": x.argmax(1),
            "argmin": x.argmin(1),
            "max": x.max(1).indices,
            "order": ordered.indices,
            "ordered": ordered.values,
            "equal": torch.eq(x, x.amax(1, keepdim=True)),
        }


@case(TOPIC, "an embedding of a mode")
class Embedded(Code):
    inputs = {"x": (1, 4), "mode": _index(5, 1)}

    def __init__(self) -> None:
        self.embedding = torch.nn.Embedding(5, 4)

    def step(self, x: torch.Tensor, mode: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x + self.embedding(mode)}


@case(TOPIC, "the heights under the feet from a map, by computed indices")
class Heights(Code):
    inputs = {"position": (1, 4, 2)}

    def __init__(self) -> None:
        self.heights = torch.randn(16, 16)

    def step(self, position: torch.Tensor) -> dict[str, torch.Tensor]:
        points = ((position + 2) / 0.25).long()
        px, py = points[..., 0].view(-1).clip(0, 14), points[..., 1].view(-1).clip(0, 14)
        corner = torch.min(self.heights[px, py], self.heights[px + 1, py])
        return {"heights": torch.min(corner, self.heights[px, py + 1]).view(1, -1) * 0.005}


@case(TOPIC, "a slice between bounds that are tensors", "value_leak")
class SliceByTensors(Code):
    inputs = {"x": (1, 6), "start": _index(3)}

    def step(self, x: torch.Tensor, start: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x[:, start : start + 2]}


@case(TOPIC, "narrow with a start that is a tensor", "value_leak")
class NarrowByTensor(Code):
    inputs = {"x": (1, 6), "start": _index(3)}

    def step(self, x: torch.Tensor, start: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x.narrow(1, start, 2)}


@case(TOPIC, "roll by an amount that is a tensor", "value_leak")
class RollByTensor(Code):
    inputs = {"x": (1, 6), "shift": _index(3)}

    def step(self, x: torch.Tensor, shift: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": torch.roll(x, int(shift), 1)}


@case(TOPIC, "a Python list indexed by a tensor", "value_leak")
class ListByTensor(Code):
    inputs = {"x": (1, 4), "mode": _index(3)}
    gains = (0.5, 1.0, 2.0)

    def step(self, x: torch.Tensor, mode: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x * self.gains[mode]}


@case(TOPIC, "nonzero", "data_dependent_shape")
class Nonzero(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x.clone()
        rows, columns = (x > 0).nonzero(as_tuple=True)
        y[rows, columns] = 0.0
        return {"y": y}


@case(TOPIC, "unique", "data_dependent_shape")
class Unique(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": torch.unique(x.round()).sum().unsqueeze(0)}
