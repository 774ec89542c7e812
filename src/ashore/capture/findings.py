"""What an export can find that would make a package differ from the code it came from.

Each has a name by which it can be allowed, a severity, and a remedy. ``docs/findings.md`` explains every one with an
example; a test keeps the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ashore.capture.lines import Line
from ashore.spec import Finding as Record
from ashore.spec.manifest import Severity


@dataclass(frozen=True)
class Kind:
    """A kind of finding."""

    severity: Severity
    summary: str
    remedy: str


KINDS: Mapping[str, Kind] = {
    "undeclared_input": Kind(
        "error",
        "A tensor that nobody declared changed between steps, and not by anything the step did.",
        "declare it with rec.input, annotate.input_tensors or an Input of the environment, or keep it constant",
    ),
    "value_leak": Kind(
        "error",
        "A value left the graph into Python, where it cannot be followed.",
        "compute with tensors: torch.where for a branch, a tensor operation for item(), float() or numpy()",
    ),
    "data_dependent_shape": Kind(
        "error",
        "The shape of a tensor depends on the values of another.",
        "use a mask with torch.where, or x[mask] = value, instead of selecting elements",
    ),
    "randomness": Kind(
        "error",
        "The step draws random numbers.",
        "switch noise off for the export, or declare the noise an input",
    ),
    "control_flow": Kind(
        "error",
        "The steps do not do the same operations.",
        "make every step run the same code: no counters, no branches that change between steps",
    ),
    "python_value": Kind(
        "error",
        "A number from Python changes between steps.",
        "keep it in a tensor that the step itself updates, or declare it an input",
    ),
    "unused_input": Kind(
        "error", "A declared input has no influence on any output.", "remove the declaration, or use the input"
    ),
    "constant_output": Kind(
        "error", "An output depends on no input and on no state.", "check which tensor is declared as the output"
    ),
    "unwritten_output": Kind(
        "error", "An output was not computed by the step.", "declare the tensor that the step computes"
    ),
    "training_mode": Kind("error", "A module is in training mode.", "call .eval() on it before recording"),
    "too_few_steps": Kind(
        "error",
        "Too little was recorded to tell constants, states and inputs apart.",
        "record at least three steps, better five, with a reset among them",
    ),
    "first_step": Kind(
        "error",
        "The first step of an episode does something that no initial state explains.",
        "create states before the first step, with their initial values",
    ),
    "outside_write": Kind(
        "error",
        "A state was changed between steps by something the steps did not do.",
        "change it inside the step, call rec.reset() before resetting it, or declare it an input",
    ),
    "reset_value": Kind(
        "error",
        "A reset gave a state a value that is neither its initial value nor what it was.",
        "reset it to the same value each time, or declare it an input",
    ),
    "not_reproduced": Kind(
        "error",
        "Running the recorded operations again does not give what the code computed.",
        "look for code that changes tensors without tensor operations, such as numpy views",
    ),
    "unsupported_operation": Kind(
        "error", "The backend cannot express an operation.", "use another operation, or another backend"
    ),
    "precision": Kind(
        "error",
        "The exported file computes something else than the code did, beyond the tolerance.",
        "look at the operation and its precision; allow a larger tolerance only if you know why",
    ),
    "entangled_nodes": Kind("error", "Two nodes need each other's results within one step.", "join them into one node"),
    "unsupported_dtype": Kind(
        "error",
        "A port or a state has a dtype that a package cannot hold.",
        "convert it, for example with .float()",
    ),
    "changing_shape": Kind(
        "error",
        "A port has another shape or dtype in another step.",
        "give it the same shape and dtype in every step",
    ),
    "batch": Kind(
        "error",
        "The code cannot be made to work on any number of rows.",
        "leave out batch='dynamic', or compute each row by itself",
    ),
    "random_delay": Kind(
        "error",
        "An observation is delayed by a random number of steps.",
        "give the term a constant delay for the export: delay_min_lag = delay_max_lag, delay_hold_prob = 0",
    ),
    "gain": Kind(
        "error",
        "A joint is driven by position targets, but its actuator has no positive stiffness.",
        "correct the actuator, or drive the joint by velocity or effort targets",
    ),
    "lost_normalizer": Kind(
        "error",
        "An actor has a normaliser, and what was recorded does not use it.",
        "export the whole actor-critic instead of a part of it, or give normalizer=…",
    ),
    "non_finite": Kind("warning", "A port held a NaN or an infinity during the recording.", "check that this is meant"),
    "kind_without_names": Kind(
        "warning",
        "A port has a kind that needs names, of joints or of the parts of a pose, and has none; the kind is set aside.",
        "give element_names, in order",
    ),
    "python_counter": Kind(
        "warning",
        "A number that Python keeps changes between steps, and could decide a branch later than the recording lasts.",
        "nothing has to be done if it only counts; if it decides something, keep it in a tensor and use torch.where",
    ),
    "late_leak": Kind(
        "warning",
        "A value left the graph into Python after the outputs, where it could decide what a later step does.",
        "nothing has to be done if it is only shown or kept",
    ),
    "huge_constant": Kind("warning", "A constant is very large.", "check that it should be part of the package"),
    "grad_constant": Kind(
        "warning", "A constant that is no parameter requires a gradient.", "check that it should not change any more"
    ),
    "idle_normalizer": Kind(
        "warning",
        "Leaving out a normaliser of the actor changes nothing.",
        "load its statistics from the checkpoint too",
    ),
    "privileged_input": Kind(
        "warning",
        "The actor reads something that only a simulation knows.",
        "train a student that does without it, or estimate it on the robot",
    ),
    "no_semantics": Kind(
        "warning",
        "A property is read that nobody described, so nothing says what the input means.",
        "describe it with ashore.integrations.describe",
    ),
    "actuator_delay": Kind(
        "info",
        "The actuators of the training environment act late; a robot has its own delay.",
        "nothing has to be done",
    ),
    "encoder_bias": Kind(
        "info",
        "Joint positions and targets are what the encoders read: the bias that the simulation gives them is left out.",
        "nothing has to be done",
    ),
    "undeclared_state": Kind("info", "A state that nobody declared was found.", "nothing has to be done"),
    "no_reset": Kind(
        "info",
        "No reset was recorded, so a reset is taken to restore every initial value.",
        "call rec.reset() during the recording to have it checked",
    ),
}


@dataclass(frozen=True)
class Finding:
    """Something that was found."""

    name: str
    message: str
    line: Line | None = None
    tensor: str | None = None

    @property
    def severity(self) -> Severity:
        """How bad it is; errors fail the export unless they are allowed."""
        return KINDS[self.name].severity

    def __str__(self) -> str:
        where = f"{self.line}: " if self.line else ""
        return f"{where}{self.message} [{self.name}]"

    def record(self) -> Record:
        """How it is kept in the manifest."""
        return Record(
            name=self.name,
            severity=self.severity,
            message=self.message,
            tensor=self.tensor,
            where=str(self.line) if self.line else None,
            remedy=KINDS[self.name].remedy,
        )
