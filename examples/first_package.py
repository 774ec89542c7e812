"""Build a package by code: a two-joint arm that follows a command. Usage: first_package.py OUT

`decide` stands for a training environment. What it computes is recorded and kept in the package, so that anyone can
check later, on any machine, that the saved file still computes the same.
"""

import sys

import msgspec
import numpy as np
import onnx.parser
from onnx.numpy_helper import from_array

from ashore.package import Recording, collect_provenance, write
from ashore.spec import Artifact, Feedback, Joint, Port, State, Timing, single_stage

JOINTS = ("shoulder", "elbow")
DEFAULT = np.array([[0.3, -0.6]], np.float32)
WEIGHTS = np.kron(np.array([[-0.1], [-0.05], [1.1], [0.1]]), np.eye(2)).astype(np.float32)
GRAPH = """<ir_version: 10, opset_import: ["" : 18]>
policy (float[1,2] joint_pos, float[1,2] joint_vel, float[1,2] command, float[1,2] last_action)
    => (float[1,2] joint_target, float[1,2] action) {
    position = Sub(joint_pos, default)
    wish = Sub(command, default)
    obs = Concat<axis = 1>(position, joint_vel, wish, last_action)
    raw = MatMul(obs, weights)
    action = Tanh(raw)
    joint_target = Add(default, action)
}"""


def decide(joint_pos: np.ndarray, joint_vel: np.ndarray, command: np.ndarray, last_action: np.ndarray) -> np.ndarray:
    """Observation and network, as the training code has them; the action is an offset from the default pose."""
    return np.tanh(np.concatenate([joint_pos - DEFAULT, joint_vel, command - DEFAULT, last_action], axis=1) @ WEIGHTS)


def port(kind: str, unit: str) -> Port:
    """A port with one element per joint."""
    return Port(dtype="float32", shape=(1, 2), kind=kind, unit=unit, element_names=(None, JOINTS))


manifest = single_stage(
    "first",
    inputs={
        "joint_pos": port("state/joint/position", "rad"),
        "joint_vel": port("state/joint/velocity", "rad/s"),
        "command": port("command/joint/position", "rad"),
    },
    outputs={"joint_target": port("target/joint/position", "rad")},
    states={"last_action": Feedback(State(dtype="float32", shape=(1, 2), role="last_action"), "action", "last_action")},
    artifacts={"onnx": Artifact(path="artifacts/policy.onnx", opset=18)},
)
manifest = msgspec.structs.replace(
    manifest,
    timing=Timing(policy_dt_s=0.02, physics_dt_s=0.005, decimation=4),
    joints=tuple(Joint(name=JOINTS[i], default_position=float(DEFAULT[0, i]), kp=40.0, kd=4.0) for i in range(2)),
    provenance=collect_provenance(),
)
model = onnx.parser.parse_model(GRAPH)
model.graph.initializer.extend([from_array(DEFAULT, "default"), from_array(WEIGHTS, "weights")])

rng, recording, action = np.random.default_rng(0), Recording(), np.zeros((1, 2), np.float32)
for step in range(60):
    if step == 40:  # an episode ends: the last action is forgotten
        action = np.zeros((1, 2), np.float32)
        recording.reset()
    inputs = {name: rng.uniform(-1, 1, (1, 2)).astype(np.float32) for name in manifest.inputs}
    action = decide(**inputs, last_action=action)
    recording.step(inputs, {"joint_target": DEFAULT + action}, {"last_action": action})

files, initial = {"artifacts/policy.onnx": model.SerializeToString()}, {"last_action": np.zeros((1, 2), np.float32)}
package = write(sys.argv[1], manifest, files=files, initial=initial, golden=recording.golden())
print(f"wrote {package.path}: {len(package.manifest.files) + 1} files, {package.size:,} bytes")
