"""What a policy offers to be exported in stages, and what it says about each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from ashore.building import ProcessorSpec

if TYPE_CHECKING:
    import torch

Observation: TypeAlias = Mapping[str, Any]
"""Feature -> what a robot has: a tensor or an array with a batch axis, or a text."""


@dataclass(frozen=True)
class ExportInputs:
    """What a module is called with, by position, and what goes in and comes out is called."""

    tensors: Sequence[torch.Tensor]
    input_names: Sequence[str]
    output_names: Sequence[str]
    features: Mapping[str, str] | None = None
    """Input -> the feature, or the output of an earlier module, that it takes; left out, they have the same name."""

    noise: Sequence[str] = ()
    """The inputs that are standard normal numbers, drawn for each decision."""


@runtime_checkable
class Exportable(Protocol):
    """A policy that says by itself how it is exported.

    More methods are used where they are there:

    - ``get_runner_params()``: a dict with what the inference type needs (``num_steps``, ``chunk_size``,
      ``n_action_steps`` …; else they are looked up in ``config``).
    - ``export_assets()``: file name -> bytes or a path. Files that no processor reads are left out.
    - ``prepare_example(example_batch, include_normalization=…)``, the first to be called: what a robot gives, from what
      people have, or from None.
    - ``imagine(manifest)``: observations without end to try the package on, where inputs near the example would not do.
    - ``check_package(package, atol=…, rtol=…)``, called with the package before it is written: compares it with
      something else, and raises `ExportError` or returns what shall be in the metadata.
    """

    def get_inference_type(self) -> str:
        """How the modules are run: ``single_pass``, ``flow``, ``kv_cache_flow``, ``ddpm``, ``ddim``, or your own."""
        ...

    def get_export_modules(self) -> Mapping[str, torch.nn.Module]:
        """Stage -> module, in the order they run."""
        ...

    def prepare_inputs(self, example_batch: Observation) -> Mapping[str, ExportInputs]:
        """Stage -> what its module is called with for a batch."""
        ...

    def export_processor_specs(
        self, include_normalization: bool, stats_artifact: str, assets: Mapping[str, str] | None = None
    ) -> tuple[Sequence[ProcessorSpec], Sequence[ProcessorSpec]]:
        """What is done before the modules, and after them, in order."""
        ...
