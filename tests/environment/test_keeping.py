"""Leaving everything as it was: tensors in place, names, containers, arrays, random numbers to come."""

from __future__ import annotations

import random
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from ashore.environment.keeping import Statics, kept


def holder(**things: Any) -> SimpleNamespace:
    return SimpleNamespace(**things)


# --- tensors ---------------------------------------------------------------------------------------------------------


def test_a_tensor_is_put_back_in_place() -> None:
    one = holder(x=torch.arange(4.0))
    tensor, place = one.x, one.x.data_ptr()
    with kept(one):
        one.x[:] = 9.0
        one.x.mul_(2.0)
    assert one.x is tensor
    assert one.x.data_ptr() == place
    assert one.x.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_view_and_what_it_is_a_view_of_are_put_back_together() -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    one = holder(column=whole[:, 1], turned=whole.T, part=whole[1:])
    with kept(one):
        whole.fill_(5.0)  # whoever holds the memory sees it as it was, though it was reached by views only
    assert whole.tolist() == torch.arange(12.0).reshape(3, 4).tolist()
    assert one.column.tolist() == [1.0, 5.0, 9.0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.bool, torch.uint8])
def test_tensors_of_every_dtype_are_put_back(dtype: torch.dtype) -> None:
    one = holder(x=torch.tensor([1, 0, 1]).to(dtype))
    with kept(one):
        one.x.zero_()
    assert one.x.tolist() == torch.tensor([1, 0, 1]).to(dtype).tolist()


def test_a_tensor_that_was_rebound_is_the_old_one_again() -> None:
    one = holder(x=torch.ones(2))
    before = one.x
    with kept(one):
        one.x = one.x + 1.0
    assert one.x is before
    assert one.x.tolist() == [1.0, 1.0]


def test_nan_is_put_back() -> None:
    one = holder(x=torch.tensor([float("nan"), 1.0]))
    with kept(one):
        one.x.zero_()
    assert one.x.isnan().tolist() == [True, False]


def test_tensors_of_inference_mode_are_put_back() -> None:
    with torch.inference_mode():
        one = holder(x=torch.ones(2))
    with kept(one), torch.inference_mode():
        one.x.add_(1.0)
    assert one.x.tolist() == [1.0, 1.0]
    ordinary = holder(x=torch.ones(2))
    with kept(ordinary), torch.inference_mode():
        ordinary.x.add_(1.0)
    assert ordinary.x.tolist() == [1.0, 1.0]
    assert not ordinary.x.is_inference()


def test_a_tensor_that_requires_a_gradient_still_does() -> None:
    one = holder(x=torch.ones(2, requires_grad=True))
    with kept(one), torch.no_grad():
        one.x.add_(1.0)
    assert one.x.tolist() == [1.0, 1.0]
    assert one.x.requires_grad
    assert one.x.is_leaf


def test_buffers_and_modes_of_modules_are_put_back() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    mean = module[1].running_mean
    with kept(module):
        module(torch.randn(8, 2))
        module.eval()
        module.register_buffer("extra", torch.ones(1))
    assert module[1].running_mean is mean
    assert module[1].running_mean.tolist() == [0.0, 0.0]  # type: ignore[union-attr]
    assert module[1].num_batches_tracked.item() == 0  # type: ignore[union-attr]
    assert module.training
    assert module[0].training
    assert "extra" not in dict(module.named_buffers())


class Summing(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total += x
        return self.total * 1.0


def test_buffers_of_scripted_modules_are_put_back() -> None:
    module: Any = torch.jit.script(Summing())
    with kept(holder(module=module)):
        module(torch.ones(2))
    assert module.total.tolist() == [0.0, 0.0]


class Rebinding(Summing):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total = self.total + x
        return self.total


def test_rebound_buffers_of_scripted_modules_are_put_back() -> None:
    module: Any = torch.jit.script(Rebinding())
    with kept(holder(module=module)):
        module(torch.ones(2))
    assert module.total.tolist() == [0.0, 0.0]


# --- names and containers --------------------------------------------------------------------------------------------


def test_attributes_that_were_changed_made_or_deleted_are_as_they_were() -> None:
    one = holder(count=3, name="a", gone=[1])
    gone = one.gone
    with kept(one):
        one.count += 1
        one.new = torch.ones(1)
        del one.gone
    assert vars(one) == {"count": 3, "name": "a", "gone": [1]}
    assert one.gone is gone


def test_what_lies_deep_is_reached() -> None:
    tensor = torch.zeros(1)
    one = holder(a=({"b": [holder(c=deque([(tensor,)]))]},))
    with kept(one):
        tensor += 1
        one.a[0]["b"][0].c.appendleft(None)
    assert tensor.item() == 0.0
    assert len(one.a[0]["b"][0].c) == 1


def test_a_cycle_is_no_trouble() -> None:
    one = holder(x=torch.zeros(1))
    one.itself, one.items = one, [one]
    with kept(one):
        one.x += 1
    assert one.x.item() == 0.0


CONTAINERS: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "list": (lambda: [1, 2, 3], lambda it: (it.append(4), it.pop(0), it.reverse())),
    "emptied list": (lambda: [1, 2], lambda it: it.clear()),
    "dict": (lambda: {"a": 1, "b": 2}, lambda it: (it.update(a=5, c=6), it.pop("b"))),
    "default dict": (lambda: defaultdict(int, a=1), lambda it: it["b"]),
    "ordered dict": (lambda: OrderedDict(a=1, b=2), lambda it: it.move_to_end("a")),
    "dict in order": (lambda: {"a": 1, "b": 2}, lambda it: it.update(a=it.pop("a"))),
    "deque": (lambda: deque([1, 2, 3]), lambda it: (it.popleft(), it.append(4))),
    "bounded deque": (lambda: deque([1, 2], maxlen=2), lambda it: (it.append(3), it.append(4))),
    "rotated deque": (lambda: deque([1, 2, 3]), lambda it: it.rotate(1)),
    "set": (lambda: {1, 2}, lambda it: (it.add(3), it.remove(1))),
    "bytearray": (lambda: bytearray(b"abc"), lambda it: it.__setitem__(0, 0)),
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_a_container_is_put_back_in_place(kind: str) -> None:
    make, change = CONTAINERS[kind]
    one = holder(it=make())
    before = one.it
    with kept(one):
        change(one.it)
        assert one.it != make() or list(one.it) != list(make())
        one.other = one.it
    assert one.it is before
    assert one.it == make()
    assert list(one.it) == list(make())
    assert not hasattr(one, "other")


def test_an_element_that_was_replaced_is_the_old_one_again() -> None:
    first, second = torch.zeros(1), torch.ones(1)
    one = holder(items=[first, second], named={"a": first})
    with kept(one):
        one.items[0] = second
        one.named["a"] = second
        first += 5
    assert one.items[0] is first
    assert one.named["a"] is first
    assert first.item() == 0.0


def test_arrays_are_put_back_in_place() -> None:
    one = holder(x=np.arange(3), record=np.zeros(2, [("a", "f4"), ("b", "i4")]), frozen=np.ones(2))
    one.frozen.flags.writeable = False
    before = one.x
    with kept(one):
        one.x += 1
        one.record["a"] = 7
        one.x = None
    assert one.x is before
    assert before.tolist() == [0, 1, 2]
    assert one.record["a"].tolist() == [0.0, 0.0]


def test_what_an_array_of_objects_holds_is_reached() -> None:
    tensor = torch.zeros(1)
    one = holder(x=np.array([tensor, None, "a"], dtype=object))
    with kept(one):
        tensor += 1
        one.x[1] = 5
    assert tensor.item() == 0.0
    assert one.x[1] is None


class Slots:
    __slots__ = ("__hidden", "late", "x")

    def __init__(self) -> None:
        self.x, self.__hidden = torch.zeros(1), 1

    def change(self) -> None:
        self.x = self.x + 1
        self.__hidden += 1

    @property
    def hidden(self) -> int:
        return self.__hidden


class MoreSlots(Slots):
    __slots__ = ("y",)

    def __init__(self) -> None:
        super().__init__()
        self.y = [1]


def test_slots_are_put_back() -> None:
    one = MoreSlots()
    before = one.x
    with kept(holder(one=one)):
        one.change()
        one.y.append(2)
        one.late = 3  # type: ignore[misc]
    assert one.x is before
    assert one.y == [1]
    assert one.hidden == 1
    assert not hasattr(one, "late")


@dataclass(frozen=True)
class Frozen:
    x: torch.Tensor
    items: list[int]


def test_what_a_frozen_object_holds_is_put_back() -> None:
    one = Frozen(torch.zeros(1), [1])
    with kept(one):
        one.x.add_(1.0)
        one.items.append(2)
        object.__setattr__(one, "items", [])
    assert one.x.item() == 0.0
    assert one.items == [1]


# --- functions -------------------------------------------------------------------------------------------------------


def counter() -> tuple[Callable[[], int], Callable[[], torch.Tensor]]:
    count, tensor = 0, torch.zeros(1)

    def advance() -> int:
        nonlocal count, tensor
        count += 1
        tensor.add_(1.0)
        tensor = tensor + 1.0
        return count

    return advance, lambda: tensor


def test_what_closures_refer_to_is_put_back() -> None:
    advance, read = counter()
    before = read()
    with kept(holder(advance=advance)):
        advance()
        advance()
    assert read() is before
    assert read().item() == 0.0
    assert advance() == 1


def test_what_methods_partial_functions_and_defaults_refer_to_is_put_back() -> None:
    one, two, three = (holder(x=torch.zeros(1)) for _ in range(3))

    class Owner:
        def __init__(self) -> None:
            self.x = torch.zeros(1)

        def method(self) -> None:
            self.x += 1

    owner = Owner()

    def by_default(thing: Any = two, *, other: Any = three) -> None:
        thing.x += 1
        other.x += 1

    def of(thing: Any) -> None:
        thing.x += 1

    with kept(holder(method=owner.method, part=partial(of, one), default=by_default)):
        owner.method()
        of(one)
        by_default()
    assert [thing.x.item() for thing in (owner, one, two, three)] == [0.0, 0.0, 0.0, 0.0]


# --- random numbers --------------------------------------------------------------------------------------------------


def draw() -> list[float]:
    return [random.random(), random.gauss(0.0, 1.0), float(np.random.rand()), torch.rand(1).item()]


def test_the_global_streams_go_on_as_if_nothing_had_happened() -> None:
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    expected = draw()
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    with kept():
        draw()
    assert draw() == expected


STREAMS: dict[str, tuple[Callable[[], Any], Callable[[Any], float]]] = {
    "torch": (lambda: torch.Generator().manual_seed(3), lambda it: torch.rand(1, generator=it).item()),
    "numpy": (lambda: np.random.default_rng(3), lambda it: it.random()),
    "numpy, old": (lambda: np.random.RandomState(3), lambda it: it.rand()),
    "python": (lambda: random.Random(3), lambda it: it.random()),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_generators_go_on_as_if_nothing_had_happened(kind: str) -> None:
    make, use = STREAMS[kind]
    one = holder(it=make())
    with kept(one):
        use(one.it)
        use(one.it)
    assert use(one.it) == use(make())


# --- what happens in the block ---------------------------------------------------------------------------------------


def test_everything_is_put_back_when_the_block_fails() -> None:
    one = holder(x=torch.zeros(1), count=0)
    torch.manual_seed(1)
    expected = torch.rand(1).item()
    torch.manual_seed(1)
    with pytest.raises(ValueError, match="inside"), kept(one):
        one.x += 1
        one.count = 5
        torch.rand(1)
        raise ValueError("inside")
    assert one.x.item() == 0.0
    assert one.count == 0
    assert torch.rand(1).item() == expected


def test_blocks_may_lie_in_each_other() -> None:
    one = holder(x=torch.zeros(1))
    with kept(one):
        one.x += 1
        with kept(one):
            one.x += 1
        assert one.x.item() == 1.0
    assert one.x.item() == 0.0


def test_weights_are_not_copied_and_what_is_no_data_is_left_alone() -> None:
    import threading

    one = holder(lock=threading.Lock(), module=np, kind=dict, weight=torch.nn.Parameter(torch.zeros(2)))
    with kept(one):
        one.lock.acquire()
    assert one.lock.locked()
    assert one.module is np


def test_what_classes_hold_is_put_back_where_it_is_asked_for() -> None:
    class World:
        state = torch.zeros(1)
        bodies: ClassVar[list[str]] = ["robot"]

    class Physics(World):
        steps = 0

        @classmethod
        def step(cls) -> None:
            cls.steps += 1
            World.state = cls.state + 1
            cls.bodies.append("ball")

    state, step = World.state, Physics.step
    with kept(Statics(Physics)):
        Physics.step()
        state.fill_(7.0)
    assert (Physics.steps, Physics.bodies, World.state is state, state.item()) == (0, ["robot"], True, 0.0)
    assert Physics.step == step
    with kept(holder(physics=Physics)):
        Physics.step()
    assert Physics.steps == 1, "a class that is only held is left alone"
