"""A model at rest."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ashore.actor.rest import at_rest, check_weights
from ashore.errors import InputError


def test_modes_come_back_one_by_one_also_after_an_error() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    model.train()
    model[1].eval()
    with pytest.raises(KeyError), at_rest({"model": model}):
        assert not any(one.training for one in model.modules())
        assert not torch.backends.mha.get_fastpath_enabled()
        raise KeyError
    assert (model.training, model[0].training, model[1].training) == (True, True, False)
    assert torch.backends.mha.get_fastpath_enabled()


def test_weights_come_back_to_their_device_as_the_same_tensors() -> None:
    """A machine without a GPU has one other device: meta, whose tensors have no values to bring."""
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with at_rest({"model": model}):
        assert {one.device.type for one in model.parameters()} == {"cpu"}
    assert {id(one) for one in optimizer.param_groups[0]["params"]} == {id(one) for one in model.parameters()}


@pytest.mark.parametrize(("value", "buffer", "fails"), [
    (torch.nan, False, True), (torch.inf, False, True), (torch.nan, True, True), (torch.inf, True, False),
])  # fmt: skip
def test_weights_are_numbers_and_limits_may_be_infinite(value: float, buffer: bool, fails: bool) -> None:
    module = nn.Linear(2, 2)
    module.register_buffer("limit", torch.zeros(3))
    with torch.no_grad():
        (module.get_buffer("limit") if buffer else module.weight).flatten()[0] = value
    if not fails:
        check_weights({"policy": module})
        return
    name = "policy.limit" if buffer else "policy.weight"
    with pytest.raises(InputError, match=f"{name}: 1 of .* values are not finite"):
        check_weights({"policy": module})


def test_lazy_weights_are_no_weights_yet() -> None:
    with pytest.raises(InputError, match="policy.weight: has no values yet"):
        check_weights({"policy": nn.LazyLinear(2)})
