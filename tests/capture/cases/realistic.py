"""Whole pieces of environments, policies and controllers, as projects write them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn
from torch.nn.functional import interpolate, normalize, one_hot, relu

from capture.cases.registry import Code, case

TOPIC = "pipeline"
DT = 0.02


def _mlp(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ELU()]
    return nn.Sequential(*layers[:-1]).eval()


def _wrap(angle: torch.Tensor) -> torch.Tensor:
    return (angle + math.pi) % (2 * math.pi) - math.pi


def _multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    w, v, x, u = a[..., :1], a[..., 1:], b[..., :1], b[..., 1:]
    scalar = w * x - (v * u).sum(dim=-1, keepdim=True)
    return torch.cat((scalar, w * u + x * v + torch.cross(v, u, dim=-1)), dim=-1)


def _conjugate(q: torch.Tensor) -> torch.Tensor:
    return torch.cat((q[..., :1], -q[..., 1:]), dim=-1)


def _rotate(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    across = 2.0 * torch.cross(q[..., 1:], v, dim=-1)
    return v + q[..., :1] * across + torch.cross(q[..., 1:], across, dim=-1)


def _yaw(q: torch.Tensor) -> torch.Tensor:
    w, x, y, z = q.unbind(dim=-1)
    return torch.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


class _Memory(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], inputs: int, hidden: int) -> None:
        super().__init__()
        self.rnn = kind(inputs, hidden, num_layers=2)
        self.hidden_states: torch.Tensor | tuple[torch.Tensor, ...] | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, self.hidden_states = self.rnn(x.unsqueeze(0), self.hidden_states)
        return out.squeeze(0)

    def reset(self, dones: torch.Tensor) -> None:
        states = self.hidden_states if isinstance(self.hidden_states, tuple) else (self.hidden_states,)
        for state in states:
            state[..., dones == 1, :] = 0.0


@case(TOPIC, "a recurrent actor-critic whose memories are cleared by dones after each step")
class ActorCriticRecurrent(Code):
    inputs = {"obs": (3, 4), "dones": lambda generator: torch.rand(3, generator=generator) < 0.2}

    def __init__(self) -> None:
        self.actor_memory, self.critic_memory = _Memory(nn.LSTM, 4, 8), _Memory(nn.GRU, 4, 8)
        self.actor, self.critic, self.std = nn.Linear(8, 2), nn.Linear(8, 1), nn.Parameter(torch.ones(2))

    def reset(self) -> None:
        self.actor_memory.hidden_states = self.critic_memory.hidden_states = None

    @torch.inference_mode()
    def step(self, obs: torch.Tensor, dones: torch.Tensor) -> dict[str, torch.Tensor]:
        mean = self.actor(self.actor_memory(obs))
        distribution = torch.distributions.Normal(mean, mean * 0.0 + self.std)
        value = self.critic(self.critic_memory(obs))
        self.actor_memory.reset(dones)
        self.critic_memory.reset(dones)
        return {"action": distribution.mean.clone(), "value": value}


@dataclass
class _Term:
    function: Callable[[Mapping[str, torch.Tensor]], torch.Tensor]
    scale: float = 1.0
    clip: tuple[float, float] | None = None
    history: torch.Tensor | None = None

    def read(self, data: Mapping[str, torch.Tensor]) -> torch.Tensor:
        value = self.function(data).clone()
        if self.clip is not None:
            value = value.clip_(*self.clip)
        value.mul_(self.scale)
        if self.history is None:
            return value
        self.history[:] = torch.cat((self.history[:, 1:], value.unsqueeze(1)), dim=1)
        return self.history.flatten(1)


@case(TOPIC, "an observation manager with scale, clip and history of each term, in two groups")
class ObservationManager(Code):
    inputs = {"spin": (1, 3), "quat": (1, 4), "joints": (1, 6), "speeds": (1, 6), "command": (1, 3)}

    def __init__(self) -> None:
        default, down = torch.linspace(-0.3, 0.3, 6), torch.tensor([[0.0, 0.0, -1.0]])
        self.policy = {
            "spin": _Term(lambda data: data["spin"], scale=0.25, clip=(-2.0, 2.0)),
            "gravity": _Term(lambda data: _rotate(_conjugate(normalize(data["quat"], dim=-1)), down)),
            "joints": _Term(lambda data: data["joints"] - default, history=torch.zeros(1, 3, 6)),
            "speeds": _Term(lambda data: data["speeds"], 0.05, (-1.0, 1.0), torch.zeros(1, 2, 6)),
            "command": _Term(lambda data: data["command"] * torch.tensor([2.0, 2.0, 0.25])),
            "actions": _Term(lambda data: self.action),
        }
        self.privileged = {"speeds": _Term(lambda data: torch.cat((data["spin"], data["speeds"]), dim=-1), scale=0.5)}
        self.actor, self.critic, self.action = _mlp(45, 16, 6), nn.Linear(9, 1), torch.zeros(1, 6)

    def reset(self) -> None:
        self.action = torch.zeros(1, 6)
        for term in self.policy.values():
            if term.history is not None:
                term.history.zero_()

    @torch.no_grad()
    def step(self, **data: torch.Tensor) -> dict[str, torch.Tensor]:
        self.action = self.actor(torch.cat([term.read(data) for term in self.policy.values()], dim=-1))
        privileged = torch.cat([term.read(data) for term in self.privileged.values()], dim=-1)
        return {"action": self.action, "value": self.critic(privileged)}


@case(TOPIC, "a PD controller with smoothed, rate-limited and reordered targets, over four decimated substeps")
class DecimatedController(Code):
    inputs = {"action": (1, 6), "position": (1, 6), "velocity": (1, 6)}

    def __init__(self) -> None:
        self.stiffness, self.damping, self.limit = torch.full((6,), 20.0), torch.full((6,), 0.5), torch.full((6,), 23.5)
        self.smooth, self.target, self.order = torch.zeros(1, 6), torch.zeros(1, 6), [3, 4, 5, 0, 1, 2]

    def reset(self) -> None:
        self.smooth.zero_()
        self.target.zero_()

    def step(self, action: torch.Tensor, position: torch.Tensor, velocity: torch.Tensor) -> dict[str, torch.Tensor]:
        self.smooth.mul_(0.8).add_(action.clip(-5.0, 5.0), alpha=0.2)
        self.target.copy_(self.target + torch.clamp(self.smooth - self.target, -0.1, 0.1))
        target, torques = (self.target * 0.25)[:, self.order], []
        for _ in range(4):
            torque = self.stiffness * (target - position) - self.damping * velocity
            torques.append(torch.clip(torque, -self.limit, self.limit))
            velocity = velocity + torques[-1] * 0.005
            position = position + velocity * 0.005
        return {"torques": torch.stack(torques, dim=1), "target": target}


@case(TOPIC, "tokens of a history through a transformer, pooled over those that are there")
class PooledTransformer(Code):
    inputs = {"x": (1, 8)}

    def __init__(self) -> None:
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
        self.embed, self.head = nn.Linear(8, 16), nn.Linear(16, 3)
        self.position = nn.Parameter(torch.randn(1, 5, 16) * 0.1)
        self.reset()

    def reset(self) -> None:
        self.history, self.valid = torch.zeros(1, 5, 8), torch.zeros(1, 5, dtype=torch.bool)

    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.history = torch.cat((self.history[:, 1:], x.unsqueeze(1)), dim=1)
        self.valid = torch.cat((self.valid[:, 1:], torch.ones(1, 1, dtype=torch.bool)), dim=1)
        tokens = self.encoder(self.embed(self.history) + self.position, src_key_padding_mask=~self.valid)
        weight = self.valid.float().unsqueeze(-1)
        return {"action": self.head((tokens * weight).sum(dim=1) / weight.sum(dim=1))}


@case(TOPIC, "depth images cleaned, stacked, resized, encoded, and remembered by a GRU with proprioception")
class DepthPolicy(Code):
    inputs = {"depth": (1, 1, 32, 48), "proprio": (1, 6)}

    def __init__(self) -> None:
        self.encoder = nn.Sequential(
            nn.Conv2d(2, 8, 5, 2), nn.LeakyReLU(0.2), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.ELU()
        )
        self.project = nn.Sequential(nn.AdaptiveAvgPool2d((2, 3)), nn.Flatten(), nn.Linear(48, 16))
        self.memory, self.actor = nn.GRUCell(22, 16), nn.Linear(16, 3)
        self.reset()

    def reset(self) -> None:
        self.frames, self.hidden = torch.zeros(1, 2, 32, 48), torch.zeros(1, 16)

    @torch.no_grad()
    def step(self, depth: torch.Tensor, proprio: torch.Tensor) -> dict[str, torch.Tensor]:
        depth = torch.nan_to_num(depth, posinf=2.0).clip(0.0, 2.0) / 2.0 - 0.5
        self.frames = torch.cat((self.frames[:, 1:], depth), dim=1)
        image = interpolate(self.frames, size=(30, 40), mode="bilinear")
        latent = self.project(self.encoder(image))
        self.hidden = self.memory(torch.cat((latent, proprio), dim=-1), self.hidden)
        return {"action": self.actor(self.hidden)}


@case(TOPIC, "rapid motor adaptation, its latent refreshed every fourth step by a tensor counter")
class MotorAdaptation(Code):
    inputs = {"x": (1, 10)}

    def __init__(self) -> None:
        convolutions = (nn.Conv1d(10, 8, 3), nn.ReLU(), nn.Conv1d(8, 8, 3, 2), nn.ReLU())
        self.adapt = nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(72, 4))
        self.actor = _mlp(14, 16, 3)
        self.history, self.latent = torch.zeros(1, 22, 10), torch.zeros(1, 4)
        self.count = torch.zeros((), dtype=torch.int32)

    def reset(self) -> None:
        for state in (self.history, self.latent, self.count):
            state.zero_()

    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.history = self.history.roll(-1, dims=1)
        self.history[:, -1] = x
        latent = self.adapt(self.history.permute(0, 2, 1))
        self.latent = torch.where(self.count % 4 == 0, latent, self.latent)
        self.count += 1
        return {"action": self.actor(torch.cat((x, self.latent), dim=-1))}


@case(TOPIC, "a state machine with a debounced trigger and a dwell time, which chooses gains")
class DwellingStates(Code):
    inputs = {"x": (2, 4)}

    def __init__(self) -> None:
        self.gains = torch.tensor([0.0, 0.5, 1.0])
        self.state, self.high = torch.zeros(2, dtype=torch.long), torch.zeros(2, dtype=torch.int32)
        self.dwell = torch.zeros(2)

    def reset(self) -> None:
        self.state.zero_()
        self.high.zero_()
        self.dwell.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.high = torch.where(x[:, 0] > 0.3, self.high + 1, torch.zeros_like(self.high))
        self.dwell += DT
        start = (self.state == 0) & (self.high >= 2)
        settle = (self.state == 1) & (self.dwell > 0.05)
        stop = (self.state == 2) & (x[:, 1] < -0.5)
        after = torch.where(start, 1, torch.where(settle, 2, torch.where(stop, 0, self.state)))
        self.dwell[after != self.state] = 0.0
        self.state = after
        return {"command": x * self.gains[self.state].unsqueeze(-1), "state": self.state}


@case(TOPIC, "a Kalman filter of position and velocity, its innovation inverted by torch.linalg.inv")
class MatrixKalman(Code):
    inputs = {"measured": (1, 2), "acceleration": (1, 1)}

    def __init__(self) -> None:
        self.transition, self.control = torch.tensor([[1.0, 0.1], [0.0, 1.0]]), torch.tensor([[0.005], [0.1]])
        self.process, self.noise = torch.eye(2) * 0.01, torch.eye(2) * 0.1
        self.reset()

    def reset(self) -> None:
        self.mean, self.covariance = torch.zeros(2, 1), torch.eye(2)

    def step(self, measured: torch.Tensor, acceleration: torch.Tensor) -> dict[str, torch.Tensor]:
        mean = self.transition @ self.mean + self.control @ acceleration
        covariance = self.transition @ self.covariance @ self.transition.T + self.process
        gain = covariance @ torch.linalg.inv(covariance + self.noise)
        self.mean = mean + gain @ (measured.T - mean)
        self.covariance = (torch.eye(2) - gain) @ covariance
        return {"mean": self.mean.T.clone(), "covariance": self.covariance.clone()}


def _skew(v: torch.Tensor) -> torch.Tensor:
    matrix = torch.zeros(3, 3)
    matrix[0, 1], matrix[0, 2], matrix[1, 2] = -v[2], v[1], -v[0]
    return matrix - matrix.T


@case(TOPIC, "forward kinematics by homogeneous transforms filled piece by piece, given out in six numbers")
class HomogeneousKinematics(Code):
    inputs = {"q": (2, 4)}

    def __init__(self) -> None:
        self.offsets, self.axes = torch.randn(4, 3), torch.eye(3)[[0, 1, 1, 2]]

    def step(self, q: torch.Tensor) -> dict[str, torch.Tensor]:
        pose, points = torch.eye(4).repeat(2, 1, 1), []
        for joint in range(4):
            axis = _skew(self.axes[joint])
            sine, cosine = torch.sin(q[:, joint, None, None]), torch.cos(q[:, joint, None, None])
            link = torch.zeros(2, 4, 4)
            link[:, :3, :3] = torch.eye(3) + sine * axis + (1.0 - cosine) * (axis @ axis)
            link[:, :3, 3] = self.offsets[joint]
            link[:, 3, 3] = 1.0
            pose = pose @ link
            points.append(pose[:, :3, 3])
        return {"points": torch.cat(points, dim=-1), "rotation": pose[:, :3, :2].reshape(2, -1)}


@case(TOPIC, "a gait clock at a commanded frequency, with a reward for air time")
class GaitReward(Code):
    inputs = {"command": (2, 3), "frequency": lambda generator: 1.0 + 8.0 * torch.rand(2, generator=generator)}

    def __init__(self) -> None:
        self.offsets = torch.tensor([0.0, 0.5, 0.5, 0.0])
        self.phase, self.air_time = torch.zeros(2), torch.zeros(2, 4)
        self.last_contacts = torch.zeros(2, 4, dtype=torch.bool)

    def reset(self) -> None:
        self.phase[:] = 0.0
        self.air_time[:] = 0.0
        self.last_contacts[:] = False

    def step(self, command: torch.Tensor, frequency: torch.Tensor) -> dict[str, torch.Tensor]:
        self.phase = torch.remainder(self.phase + frequency * DT, 1.0)
        phases = (self.phase.unsqueeze(-1) + self.offsets) % 1.0
        stance = phases < 0.5
        contact_filtered = stance | self.last_contacts
        self.last_contacts = stance
        first_contact = (self.air_time > 0.0) * contact_filtered
        self.air_time += DT
        reward = torch.sum((self.air_time - 0.1) * first_contact, dim=1)
        reward *= torch.norm(command[:, :2], dim=1) > 0.1
        self.air_time *= ~contact_filtered
        clock = torch.cat((torch.sin(2 * torch.pi * phases), torch.cos(2 * torch.pi * phases)), dim=-1)
        return {"clock": clock, "stance": stance, "reward": reward}


@case(TOPIC, "a sparse mixture of experts: the two best, their weights gathered by topk")
class SparseExperts(Code):
    inputs = {"x": (2, 4)}

    def __init__(self) -> None:
        self.gate, self.experts = nn.Linear(4, 5), nn.Parameter(torch.randn(5, 4, 3))

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        weight, chosen = self.gate(x).softmax(dim=-1).topk(2, dim=-1)
        weight = weight / weight.sum(dim=-1, keepdim=True)
        outputs = torch.einsum("bi,bkio->bko", x, self.experts[chosen])
        return {"action": (outputs * weight.unsqueeze(-1)).sum(dim=1)}


@case(TOPIC, "a vector-quantised latent with a straight-through estimator")
class VectorQuantised(Code):
    inputs = {"x": (2, 8)}

    def __init__(self) -> None:
        self.encoder, self.codebook, self.decoder = nn.Linear(8, 4), nn.Embedding(16, 4), nn.Linear(4, 3)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        latent = self.encoder(x)
        code = torch.cdist(latent, self.codebook.weight).argmin(dim=-1)
        quantised = latent + (self.codebook(code) - latent).detach()
        return {"action": self.decoder(quantised), "code": code}


@case(TOPIC, "a diffusion policy: eight DDIM steps from noise that is an input, warm-started by the last chunk")
class DiffusionPolicy(Code):
    inputs = {"obs": (1, 6), "noise": (1, 4, 3)}

    def __init__(self) -> None:
        self.denoise = nn.Sequential(nn.Linear(26, 32), nn.Mish(), nn.Linear(32, 12))
        self.kept = torch.cumprod(1.0 - torch.linspace(1e-4, 0.2, 8), dim=0)
        self.frequencies = torch.exp(-torch.arange(4.0))
        self.reset()

    def reset(self) -> None:
        self.chunk = torch.zeros(1, 4, 3)

    @torch.no_grad()
    def step(self, obs: torch.Tensor, noise: torch.Tensor) -> dict[str, torch.Tensor]:
        sample = 0.5 * noise + 0.5 * self.chunk
        for index in reversed(range(8)):
            angles = torch.tensor([[index / 8]]) * self.frequencies
            given = torch.cat((obs, sample.flatten(1), angles.sin(), angles.cos()), dim=-1)
            error, now = self.denoise(given).view(1, 4, 3), self.kept[index]
            before = self.kept[index - 1] if index else torch.tensor(1.0)
            clean = ((sample - (1 - now).sqrt() * error) / now.sqrt()).clamp(-1.0, 1.0)
            sample = before.sqrt() * clean + (1 - before).sqrt() * error
        self.chunk = torch.cat((sample[:, 1:], sample[:, -1:]), dim=1)
        return {"chunk": sample}


@case(TOPIC, "temporal ensembling of overlapping action chunks")
class TemporalEnsembling(Code):
    inputs = {"obs": (1, 6)}

    def __init__(self) -> None:
        self.policy, self.weights = nn.Linear(6, 12), torch.exp(-0.1 * torch.arange(4))
        self.chunks, self.filled = torch.zeros(4, 4, 3), torch.zeros(4, 4, dtype=torch.bool)

    def reset(self) -> None:
        self.chunks.zero_()
        self.filled.zero_()

    def step(self, obs: torch.Tensor) -> dict[str, torch.Tensor]:
        self.chunks = torch.roll(self.chunks, shifts=(1, -1), dims=(0, 1))
        self.filled = torch.roll(self.filled, shifts=(1, -1), dims=(0, 1))
        self.filled[:, -1] = False
        self.chunks[0], self.filled[0] = self.policy(obs).view(4, 3), True
        weights = self.weights * self.filled[:, 0]
        return {"action": ((self.chunks[:, 0] * weights[:, None]).sum(dim=0) / weights.sum()).unsqueeze(0)}


@case(TOPIC, "an actor on images and normalised vectors, squashed and unscaled to the bounds of the actions")
class SquashedUnscaled(Code):
    inputs = {
        "image": lambda generator: torch.randint(0, 256, (1, 3, 16, 16), generator=generator, dtype=torch.uint8),
        "vector": (1, 5),
    }

    def __init__(self) -> None:
        self.features = nn.Sequential(nn.Conv2d(3, 4, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(196, 8), nn.ReLU())
        self.actor, self.low, self.high = _mlp(13, 16, 2), torch.tensor([-1.0, 0.0]), torch.tensor([2.0, 1.0])
        self.mean, self.variance = torch.randn(5) * 0.1, torch.rand(5) + 0.5

    @torch.no_grad()
    def step(self, image: torch.Tensor, vector: torch.Tensor) -> dict[str, torch.Tensor]:
        vector = torch.clamp((vector - self.mean) / torch.sqrt(self.variance + 1e-8), -10.0, 10.0)
        action = torch.tanh(self.actor(torch.cat((self.features(image.float() / 255.0), vector), dim=1)))
        return {"action": self.low + 0.5 * (action + 1.0) * (self.high - self.low)}


@case(TOPIC, "a standard scaler in float64 that goes on learning, before a clipped Gaussian actor")
class RunningScaler(Code):
    inputs = {"states": (2, 5)}

    def __init__(self) -> None:
        self.mean, self.variance = torch.zeros(5, dtype=torch.float64), torch.ones(5, dtype=torch.float64)
        self.count, self.net = torch.ones((), dtype=torch.float64), nn.Linear(5, 3)
        self.log_std = nn.Parameter(torch.zeros(3))

    @torch.no_grad()
    def step(self, states: torch.Tensor) -> dict[str, torch.Tensor]:
        wide, rows = states.double(), states.shape[0]
        delta, total = wide.mean(dim=0) - self.mean, self.count + rows
        moment = self.variance * self.count + wide.var(dim=0, unbiased=False) * rows
        self.variance = (moment + delta**2 * self.count * rows / total) / total
        self.mean, self.count = self.mean + delta * rows / total, total
        scaled = (states - self.mean.float()) / (torch.sqrt(self.variance.float()) + 1e-8)
        mean = self.net(torch.clamp(scaled, -5.0, 5.0))
        distribution = torch.distributions.Normal(mean, torch.clamp(self.log_std, -20.0, 2.0).exp())
        action = torch.clamp(mean, min=-torch.ones(3), max=torch.ones(3))
        return {"action": action, "log_prob": distribution.log_prob(action).sum(dim=-1, keepdim=True)}


@case(TOPIC, "a Butterworth filter of second order in direct form II transposed")
class Butterworth(Code):
    def __init__(self) -> None:
        warped = math.tan(math.pi * 5.0 * DT)
        scale = 1.0 / (1.0 + math.sqrt(2.0) * warped + warped**2)
        self.b = torch.tensor([1.0, 2.0, 1.0]) * warped**2 * scale
        self.a = torch.tensor([2.0 * (warped**2 - 1.0), 1.0 - math.sqrt(2.0) * warped + warped**2]) * scale
        self.delays = torch.zeros(2, 1, 4)

    def reset(self) -> None:
        self.delays.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.b[0] * x + self.delays[0]
        self.delays[0] = self.b[1] * x - self.a[0] * y + self.delays[1]
        self.delays[1] = self.b[2] * x - self.a[1] * y
        return {"filtered": y}


@case(TOPIC, "a PID controller that stops integrating while saturated, its derivative zero at the start")
class AntiWindup(Code):
    inputs = {"error": (1, 4)}

    def __init__(self) -> None:
        self.integral, self.last_error = torch.zeros(1, 4), torch.full((1, 4), float("nan"))

    def reset(self) -> None:
        self.integral.zero_()
        self.last_error.fill_(float("nan"))

    def step(self, error: torch.Tensor) -> dict[str, torch.Tensor]:
        rate = torch.where(self.last_error.isnan(), torch.zeros_like(error), (error - self.last_error) / DT)
        wanted = 2.0 * error + 0.5 * self.integral + 0.01 * rate
        effort = wanted.clamp(-2.0, 2.0)
        winding = (wanted != effort) & (torch.sign(wanted) == torch.sign(error))
        self.integral += torch.where(winding, torch.zeros(()), error * DT)
        self.last_error.copy_(error)
        return {"effort": effort}


@case(TOPIC, "foot contacts from forces, with two thresholds and a debouncing count")
class DebouncedContacts(Code):
    inputs = {"forces": (2, 4, 3)}

    def __init__(self) -> None:
        self.raw, self.contact = torch.zeros(2, 4, dtype=torch.bool), torch.zeros(2, 4, dtype=torch.bool)
        self.agreed = torch.zeros(2, 4, dtype=torch.long)

    def reset(self) -> None:
        for state in (self.raw, self.contact, self.agreed):
            state.zero_()

    def step(self, forces: torch.Tensor) -> dict[str, torch.Tensor]:
        force = torch.norm(forces, dim=-1)
        raw = torch.where(self.raw, force > 1.0, force > 1.5)
        self.agreed = torch.where(raw == self.raw, self.agreed + 1, torch.zeros_like(self.agreed))
        self.raw = raw
        self.contact = torch.where(self.agreed >= 2, raw, self.contact)
        return {"contact": self.contact, "feet_down": self.contact.sum(dim=-1), "stable": self.agreed.clamp(max=10)}


@case(TOPIC, "a velocity command turned into the yaw frame, with the turn rate from a heading")
class HeadingCommand(Code):
    inputs = {"quat": (2, 4), "command": (2, 3)}

    def step(self, quat: torch.Tensor, command: torch.Tensor) -> dict[str, torch.Tensor]:
        yaw = _yaw(normalize(quat, dim=-1))
        half, zero = yaw / 2.0, torch.zeros_like(yaw)
        facing = torch.stack((torch.cos(half), zero, zero, torch.sin(half)), dim=-1)
        world = torch.cat((command[:, :2], zero.unsqueeze(-1)), dim=-1)
        velocity = _rotate(_conjugate(facing), world)[:, :2]
        turn = torch.clip(0.5 * _wrap(command[:, 2] - yaw), -1.0, 1.0)
        standing = torch.norm(command[:, :2], dim=-1, keepdim=True) < 0.2
        return {"command": torch.cat((velocity, turn.unsqueeze(-1)), dim=-1) * ~standing}


@case(TOPIC, "a height scan around the robot, turned by its yaw and interpolated between cells of a map")
class InterpolatedScan(Code):
    inputs = {"position": (2, 3), "yaw": (2,)}

    def __init__(self) -> None:
        forward, left = torch.meshgrid(torch.linspace(-1, 1, 5), torch.linspace(-0.5, 0.5, 3), indexing="ij")
        self.points, self.map = torch.stack((forward.flatten(), left.flatten()), dim=-1), torch.randn(20, 20)

    def step(self, position: torch.Tensor, yaw: torch.Tensor) -> dict[str, torch.Tensor]:
        cosine, sine = torch.cos(yaw), torch.sin(yaw)
        turn = torch.stack((torch.stack((cosine, sine), dim=-1), torch.stack((-sine, cosine), dim=-1)), dim=-2)
        cells = ((self.points @ turn + position[:, None, :2]) / 0.2 + 10.0).clamp(0.0, 18.99)
        low = cells.floor().long()
        (i, j), (u, v) = low.unbind(dim=-1), (cells - low).unbind(dim=-1)
        near = self.map[i, j] * (1.0 - u) + self.map[i + 1, j] * u
        far = self.map[i, j + 1] * (1.0 - u) + self.map[i + 1, j + 1] * u
        return {"scan": torch.clip(position[:, 2:] - 0.5 - (near * (1.0 - v) + far * v), -1.0, 1.0)}


@case(TOPIC, "discrete actions masked by an input, with log-probability and entropy")
class MaskedActions(Code):
    inputs = {"x": (2, 4), "allowed": lambda generator: torch.rand(2, 5, generator=generator) > 0.3}

    def __init__(self) -> None:
        self.net = nn.Linear(4, 5)

    def step(self, x: torch.Tensor, allowed: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = torch.where(allowed, self.net(x), torch.tensor(-1e8))
        distribution = torch.distributions.Categorical(logits=logits)
        action = distribution.probs.argmax(dim=-1)
        return {"action": action, "log_prob": distribution.log_prob(action), "entropy": distribution.entropy()}


@case(TOPIC, "several policies of which an input chooses, faded over from the last action")
class ChosenPolicy(Code):
    inputs = {"x": (2, 4), "mode": lambda generator: torch.randint(0, 3, (2,), generator=generator)}

    def __init__(self) -> None:
        self.policies, self.rows = nn.ModuleList(_mlp(4, 8, 3) for _ in range(3)), torch.arange(2)
        self.mode, self.blend, self.action = torch.zeros(2, dtype=torch.long), torch.ones(2), torch.zeros(2, 3)

    def reset(self) -> None:
        self.mode, self.blend, self.action = torch.zeros(2, dtype=torch.long), torch.ones(2), torch.zeros(2, 3)

    @torch.no_grad()
    def step(self, x: torch.Tensor, mode: torch.Tensor) -> dict[str, torch.Tensor]:
        actions = torch.stack([policy(x) for policy in self.policies])
        self.blend = torch.where(mode != self.mode, 0.25, (self.blend + 0.25).clamp(max=1.0))
        self.mode = mode.clone()
        self.action = torch.lerp(self.action, actions[mode, self.rows], self.blend.unsqueeze(-1))
        return {"action": self.action, "disagreement": actions.std(dim=0).mean(dim=-1)}


@case(TOPIC, "a policy made symmetric by mirrored observations and actions")
class SymmetricPolicy(Code):
    inputs = {"x": (2, 6)}

    def __init__(self) -> None:
        self.net, self.swap = _mlp(6, 16, 4), torch.tensor([3, 4, 5, 0, 1, 2])
        self.signs, self.action_swap = torch.tensor([1.0, -1.0, 1.0, 1.0, -1.0, 1.0]), [2, 3, 0, 1]

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        mirrored = (x * self.signs)[:, self.swap]
        plain, other = self.net(torch.cat((x, mirrored))).chunk(2)
        return {"action": 0.5 * (plain + other[:, self.action_swap])}


@case(TOPIC, "a rotation from six numbers of a network, applied to the pose of a gripper")
class SixNumbers(Code):
    inputs = {"obs": (2, 5), "position": (2, 3)}

    def __init__(self) -> None:
        self.net = _mlp(5, 16, 9)
        self.reset()

    def reset(self) -> None:
        self.rotation = torch.eye(3).repeat(2, 1, 1)

    def step(self, obs: torch.Tensor, position: torch.Tensor) -> dict[str, torch.Tensor]:
        shift, first, second = self.net(obs).split(3, dim=-1)
        x = normalize(first, dim=-1)
        y = normalize(second - (x * second).sum(dim=-1, keepdim=True) * x, dim=-1)
        turn = torch.stack((x, y, torch.linalg.cross(x, y)), dim=-1)
        target = position + torch.einsum("bij,bj->bi", self.rotation, shift)
        self.rotation = self.rotation @ turn
        return {"target": target, "rotation": self.rotation}


@case(TOPIC, "a goal in the frame of the base, its error as a position and a rotation vector")
class GoalPose(Code):
    inputs = {"position": (2, 3), "quat": (2, 4), "goal": (2, 7)}

    def step(self, position: torch.Tensor, quat: torch.Tensor, goal: torch.Tensor) -> dict[str, torch.Tensor]:
        inverse = _conjugate(normalize(quat, dim=-1))
        apart = _multiply(inverse, normalize(goal[:, 3:], dim=-1))
        apart = torch.where(apart[:, :1] < 0.0, -apart, apart)
        size = torch.norm(apart[:, 1:], dim=-1, keepdim=True)
        angle = 2.0 * torch.atan2(size, apart[:, :1])
        rotation = apart[:, 1:] * torch.where(size > 1e-6, angle / size.clamp(min=1e-6), 2.0)
        shift = _rotate(inverse, goal[:, :3] - position)
        reached = (shift.norm(dim=-1) < 1.5) & (angle.squeeze(-1) < 2.0)
        return {"shift": shift, "rotation": rotation, "reached": reached}


class _DelayBuffer:
    def __init__(self, length: int, rows: int, width: int) -> None:
        self.length, self.rows = length, torch.arange(rows)
        self.buffer = torch.zeros(length, rows, width)
        self.pointer, self.pushes = torch.full((rows,), -1), torch.zeros(rows, dtype=torch.long)

    def reset(self) -> None:
        self.buffer.zero_()
        self.pointer.fill_(-1)
        self.pushes.zero_()

    def compute(self, data: torch.Tensor, lags: torch.Tensor) -> torch.Tensor:
        self.pointer = (self.pointer + 1) % self.length
        self.buffer = torch.where((self.pushes == 0)[None, :, None], data, self.buffer)
        self.buffer[self.pointer, self.rows] = data
        self.pushes += 1
        lags = torch.minimum(lags, self.pushes - 1)
        return self.buffer[(self.pointer - lags) % self.length, self.rows]


@case(TOPIC, "a delay buffer with pointers that are tensors and a lag for each environment, filled by the first push")
class DelayBuffer(Code):
    inputs = {"x": (3, 4)}
    steps = 9

    def __init__(self) -> None:
        self.delay, self.lags = _DelayBuffer(4, 3, 4), torch.tensor([0, 2, 3])

    def reset(self) -> None:
        self.delay.reset()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"delayed": self.delay.compute(x, self.lags), "pushes": self.delay.pushes.float()}


@case(TOPIC, "sensors and actions delayed by lags that are inputs, around one policy")
class DelayedLoop(Code):
    inputs = {"x": (2, 4), "lags": lambda generator: torch.randint(0, 3, (2, 2), generator=generator)}

    def __init__(self) -> None:
        self.actor, self.sensors, self.motors = _mlp(7, 8, 3), _DelayBuffer(3, 2, 4), _DelayBuffer(3, 2, 3)
        self.applied = torch.zeros(2, 3)

    def reset(self) -> None:
        self.sensors.reset()
        self.motors.reset()
        self.applied = torch.zeros(2, 3)

    @torch.no_grad()
    def step(self, x: torch.Tensor, lags: torch.Tensor) -> dict[str, torch.Tensor]:
        seen = self.sensors.compute(x, lags[:, 0])
        action = self.actor(torch.cat((seen, self.applied), dim=-1))
        self.applied = self.motors.compute(action, lags[:, 1])
        return {"applied": self.applied}


@case(TOPIC, "all environments reset by a mask, with a latch that rarely trips")
class ResetByMask(Code):
    inputs = {"x": (3, 4)}

    def __init__(self) -> None:
        self.filtered, self.tripped = torch.zeros(3, 4), torch.zeros(3, dtype=torch.bool)

    def reset(self) -> None:
        done = torch.ones(3, dtype=torch.bool)
        self.filtered[done] = 0.0
        self.tripped[done] = False

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.filtered = self.filtered * 0.9 + x
        self.tripped |= x[:, 0] > 2.0
        return {"command": torch.where(self.tripped.unsqueeze(-1), 0.0, self.filtered)}


@case(TOPIC, "all environments reset by a factor of one minus done, with a peak that rarely rises")
class ResetByFactor(Code):
    inputs = {"x": (3, 4)}

    def __init__(self) -> None:
        self.filtered, self.peak = torch.zeros(3, 4), torch.zeros(3)

    def reset(self) -> None:
        going_on = 1.0 - torch.ones(3)
        self.filtered *= going_on.unsqueeze(-1)
        self.peak.mul_(going_on)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.filtered = self.filtered * 0.9 + x
        self.peak = torch.maximum(self.peak, relu(x[:, 0] - 2.0))
        return {"y": self.filtered + self.peak.unsqueeze(-1)}


@case(TOPIC, "joint states reset slice by slice, legs and arms apart")
class ResetBySlices(Code):
    def __init__(self) -> None:
        self.targets, self.overload = torch.zeros(1, 4), torch.zeros(1, 4)

    def reset(self) -> None:
        self.targets[:, :2], self.targets[:, 2:] = 0.0, 0.0
        self.overload[:, 0], self.overload[:, 1:] = 0.0, 0.0

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.targets = self.targets * 0.9 + x
        self.overload = torch.maximum(self.overload, relu(x.abs() - 2.0))
        return {"target": self.targets / (1.0 + self.overload)}


@case(TOPIC, "inverse kinematics by damped least squares, a system solved in every step")
class DampedLeastSquares(Code):
    inputs = {"q": (2, 3), "target": (2, 2)}

    def __init__(self) -> None:
        self.lengths, self.damping = torch.tensor([0.5, 0.4, 0.3]), 0.1 * torch.eye(2)
        self.reset()

    def reset(self) -> None:
        self.velocity = torch.zeros(2, 3)

    def step(self, q: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        angles = torch.cumsum(q, dim=-1)
        x, y = self.lengths * torch.cos(angles), self.lengths * torch.sin(angles)
        error = target - torch.stack((x.sum(dim=-1), y.sum(dim=-1)), dim=-1)
        tails = [torch.stack((-y[:, joint:].sum(dim=-1), x[:, joint:].sum(dim=-1)), dim=-1) for joint in range(3)]
        jacobian = torch.stack(tails, dim=-1)
        square = jacobian @ jacobian.transpose(1, 2) + self.damping
        change = (jacobian.transpose(1, 2) @ torch.linalg.solve(square, error.unsqueeze(-1))).squeeze(-1)
        self.velocity = 0.5 * self.velocity + 0.5 * change.clamp(-1.0, 1.0)
        return {"q": q + self.velocity * DT, "error": error}


@case(TOPIC, "one observation clipped twice to different bounds, one action clipped twice to the same")
class ClippedTwice(Code):
    def __init__(self) -> None:
        self.actor, self.critic = _mlp(4, 8, 4), nn.Linear(4, 1)

    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        action = torch.clip(2.0 * self.actor(torch.clip(x, -0.5, 0.5)), -0.6, 0.6)
        reach = torch.sin(action.clamp(-0.4, 0.4)) + torch.cos(action.clamp(-0.4, 0.4))
        return {"action": action, "reach": reach, "value": self.critic(torch.clip(x, -1.5, 1.5))}


@case(TOPIC, "a list of buffers of different lengths, one for each sensor")
class ListOfBuffers(Code):
    inputs = {"x": (1, 6)}
    steps = 9

    def __init__(self) -> None:
        self.buffers = [torch.zeros(length, 1, 2) for length in (2, 3, 4)]

    def reset(self) -> None:
        for buffer in self.buffers:
            buffer.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        means = []
        for buffer, value in zip(self.buffers, x.split(2, dim=-1), strict=True):
            buffer[:-1] = buffer[1:].clone()
            buffer[-1] = value
            means.append(buffer.mean(dim=0))
        return {"means": torch.cat(means, dim=-1), "spread": torch.cat(self.buffers).std(dim=0)}


@case(TOPIC, "a delay line with feedback")
class DelayWithFeedback(Code):
    steps = 9

    def __init__(self) -> None:
        self.line, self.gains = torch.zeros(1, 3, 4), torch.tensor([0.5, -0.3, 0.2])

    def reset(self) -> None:
        self.line = torch.zeros(1, 3, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x + 0.7 * self.line[:, -1] + torch.einsum("bij,i->bj", self.line, self.gains)
        self.line = torch.cat((torch.tanh(y).unsqueeze(1), self.line[:, :-1]), dim=1)
        return {"y": y}


@case(TOPIC, "a temporal convolution network fed step by step, with a cache for each layer")
class StreamedConvolutions(Code):
    steps = 9

    def __init__(self) -> None:
        self.first, self.second = nn.Conv1d(4, 8, 3), nn.Conv1d(8, 4, 3, dilation=2)
        self.seen, self.hidden = torch.zeros(1, 4, 3), torch.zeros(1, 8, 5)

    def reset(self) -> None:
        self.seen.zero_()
        self.hidden.zero_()

    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.seen = torch.cat((self.seen[..., 1:], x.unsqueeze(-1)), dim=-1)
        self.hidden.copy_(torch.cat((self.hidden[..., 1:], relu(self.first(self.seen))), dim=-1))
        return {"y": self.second(self.hidden).squeeze(-1)}


@case(TOPIC, "a joystick with a dead band, a rate limit, and the heading held while it does not turn")
class HeadingHold(Code):
    inputs = {"stick": (1, 3), "yaw": (1,)}

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.command, self.heading = torch.zeros(1, 3), torch.zeros(1)
        self.straight = torch.zeros(1, dtype=torch.bool)

    def step(self, stick: torch.Tensor, yaw: torch.Tensor) -> dict[str, torch.Tensor]:
        stick = stick * (stick.norm(dim=-1, keepdim=True) > 0.8)
        self.command += torch.clamp(stick - self.command, -0.1, 0.1)
        straight = self.command[:, 2].abs() < 0.05
        self.heading = torch.where(straight & ~self.straight, yaw, self.heading)
        self.straight = straight
        hold = (0.5 * _wrap(self.heading - yaw)).clip(-1.0, 1.0)
        turn = torch.where(straight, hold, self.command[:, 2])
        return {"command": torch.cat((self.command[:, :2], turn.unsqueeze(-1)), dim=-1)}


@case(TOPIC, "motion tracking of clips of different lengths at a speed that is an input")
class MotionTracking(Code):
    inputs = {"x": (2, 4), "speed": lambda generator: 0.5 + torch.rand(2, generator=generator)}

    def __init__(self) -> None:
        self.clips, self.seconds = torch.randn(2, 12, 4), torch.tensor([0.2, 0.12])
        self.rows, self.actor = torch.arange(2), _mlp(8, 8, 3)
        self.reset()

    def reset(self) -> None:
        self.time = torch.zeros(2)

    @torch.no_grad()
    def step(self, x: torch.Tensor, speed: torch.Tensor) -> dict[str, torch.Tensor]:
        self.time = self.time + DT * speed
        phase = (self.time / self.seconds).clamp(0.0, 1.0)
        frame = (phase * 11).floor().long().clamp(max=10)
        blend = (phase * 11 - frame).unsqueeze(-1)
        reference = torch.lerp(self.clips[self.rows, frame], self.clips[self.rows, frame + 1], blend)
        action = self.actor(torch.cat((x, reference - x), dim=-1))
        reward = torch.exp(-2.0 * (reference - x).square().sum(dim=-1))
        return {"action": action, "reward": reward, "done": phase >= 1.0}


@case(TOPIC, "options that are left only for a clear advantage")
class StickyOptions(Code):
    inputs = {"x": (2, 4)}

    def __init__(self) -> None:
        self.value, self.options = nn.Linear(4, 3), nn.ModuleList(nn.Linear(4, 2) for _ in range(3))
        self.reset()

    def reset(self) -> None:
        self.option = torch.zeros(2, dtype=torch.long)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        values = self.value(x)
        best = values.argmax(dim=-1)
        advantage = values.gather(1, best[:, None]) - values.gather(1, self.option[:, None])
        self.option = torch.where(advantage.squeeze(1) > 0.4, best, self.option)
        actions = torch.stack([option(x) for option in self.options], dim=1)
        return {"action": actions[torch.arange(2), self.option], "option": self.option}


@case(TOPIC, "the latent state of a world model, its discrete part the most likely class")
class WorldModel(Code):
    inputs = {"obs": (1, 5)}

    def __init__(self) -> None:
        self.memory, self.posterior, self.actor = nn.GRUCell(14, 8), nn.Linear(13, 12), _mlp(20, 8, 2)
        self.reset()

    def reset(self) -> None:
        self.deter, self.stoch, self.action = torch.zeros(1, 8), torch.zeros(1, 3, 4), torch.zeros(1, 2)

    @torch.no_grad()
    def step(self, obs: torch.Tensor) -> dict[str, torch.Tensor]:
        self.deter = self.memory(torch.cat((self.stoch.flatten(1), self.action), dim=-1), self.deter)
        symlog = torch.sign(obs) * torch.log1p(obs.abs())
        logits = self.posterior(torch.cat((self.deter, symlog), dim=-1)).view(1, 3, 4)
        self.stoch = one_hot(logits.argmax(dim=-1), 4).float()
        self.action = torch.tanh(self.actor(torch.cat((self.deter, self.stoch.flatten(1)), dim=-1)))
        return {"action": self.action, "latent": self.stoch.flatten(1)}


@case(TOPIC, "an actuator network: an LSTM over joints as rows, limited by a motor's torque and speed")
class ActuatorNetwork(Code):
    inputs = {"action": (2, 3), "position": (2, 3), "velocity": (2, 3)}

    def __init__(self) -> None:
        self.net, self.head = nn.LSTM(2, 8, num_layers=2, batch_first=True), nn.Linear(8, 1)
        self.hidden, self.cell = torch.zeros(2, 6, 8), torch.zeros(2, 6, 8)

    def reset(self) -> None:
        self.hidden[:] = 0.0
        self.cell[:] = 0.0

    @torch.inference_mode()
    def step(self, action: torch.Tensor, position: torch.Tensor, velocity: torch.Tensor) -> dict[str, torch.Tensor]:
        given = torch.stack(((action * 0.5 - position).flatten(), velocity.flatten()), dim=-1).unsqueeze(1)
        out, (self.hidden[:], self.cell[:]) = self.net(given, (self.hidden, self.cell))
        torque = self.head(out[:, 0]).view(2, 3) * 20.0
        most = (8.0 * (1.0 - velocity / 3.0)).clip(min=0.0, max=6.0)
        least = (8.0 * (-1.0 - velocity / 3.0)).clip(min=-6.0, max=0.0)
        return {"torque": torch.clip(torque, min=least, max=most)}


@case(TOPIC, "coupled oscillators whose frequencies and amplitudes are the action, turned into footholds")
class CentralPatterns(Code):
    inputs = {"x": (1, 6)}

    def __init__(self) -> None:
        offsets = torch.tensor([0.0, torch.pi, torch.pi, 0.0])
        self.coupling, self.actor = offsets[:, None] - offsets[None, :], _mlp(18, 16, 8)
        self.start = offsets.unsqueeze(0)
        self.reset()

    def reset(self) -> None:
        self.phase, self.radius, self.rate = self.start.clone(), torch.ones(1, 4), torch.zeros(1, 4)

    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        seen = torch.cat((x, self.phase.sin(), self.radius, self.rate), dim=-1)
        frequency, amplitude = self.actor(seen).chunk(2, dim=-1)
        for _ in range(3):
            apart = self.phase[:, None, :] - self.phase[:, :, None] + self.coupling
            drift = (self.radius[:, None, :] * torch.sin(apart)).sum(dim=-1)
            self.rate = self.rate + 0.01 * 50.0 * (12.5 * (1.5 + amplitude - self.radius) - self.rate)
            self.radius = self.radius + 0.01 * self.rate
            self.phase = (self.phase + 0.01 * (2 * torch.pi * (2.0 + frequency) + drift)) % (2 * torch.pi)
        lift = torch.where(self.phase.sin() > 0.0, 0.07, 0.01) * self.phase.sin()
        return {"foothold": torch.stack((-0.1 * self.radius * self.phase.cos(), lift - 0.3), dim=-1)}


@case(TOPIC, "attitude by a complementary filter whose gyroscope bias is learnt")
class ComplementaryFilter(Code):
    inputs = {
        "gyro": (1, 3),
        "accel": lambda generator: torch.randn(1, 3, generator=generator) + 9.81 * torch.eye(3)[2],
    }

    def __init__(self) -> None:
        self.quat, self.bias = torch.tensor([[1.0, 0.0, 0.0, 0.0]]), torch.zeros(1, 3)

    def reset(self) -> None:
        self.quat = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
        self.bias.zero_()

    def step(self, gyro: torch.Tensor, accel: torch.Tensor) -> dict[str, torch.Tensor]:
        up = _rotate(_conjugate(self.quat), torch.tensor([[0.0, 0.0, 1.0]]))
        size = accel.norm(dim=-1, keepdim=True)
        trusted = ((size - 9.81).abs() < 1.0).float()
        error = torch.cross(accel / size, up, dim=-1) * trusted
        self.bias.sub_(0.1 * error * DT)
        spin = gyro - self.bias + 2.0 * error
        change = _multiply(self.quat, torch.cat((torch.zeros(1, 1), spin), dim=-1))
        self.quat = normalize(self.quat + 0.5 * DT * change, dim=-1)
        return {"quat": self.quat, "gravity": -up}


@case(TOPIC, "episode lengths, time-outs and weighted rewards of several environments, with their sums")
class RewardManager(Code):
    inputs = {"velocity": (3, 2), "command": (3, 2), "torque": (3, 4), "height": (3,)}

    def __init__(self) -> None:
        self.weights = {"tracking": 1.0, "torque": -1e-2, "alive": 0.5}
        self.sums = {name: torch.zeros(3) for name in self.weights}
        self.length, self.limit = torch.zeros(3, dtype=torch.long), torch.tensor([3, 5, 7])

    def reset(self) -> None:
        self.length[:] = 0
        for total in self.sums.values():
            total[:] = 0.0

    def step(self, **data: torch.Tensor) -> dict[str, torch.Tensor]:
        self.length += 1
        time_outs, fallen = self.length >= self.limit, data["height"] < -1.5
        terms = {
            "tracking": torch.exp(-torch.sum(torch.square(data["command"] - data["velocity"]), dim=1) / 0.25),
            "torque": torch.sum(torch.square(data["torque"]), dim=1),
            "alive": (~fallen).float(),
        }
        reward = torch.zeros(3)
        for name, weight in self.weights.items():
            reward += terms[name] * weight * DT
            self.sums[name] += terms[name] * weight * DT
        done, sums = time_outs | fallen, torch.stack(list(self.sums.values()), dim=-1)
        self.length[done] = 0
        for total in self.sums.values():
            total[done] = 0.0
        return {"reward": reward, "time_outs": time_outs, "done": done, "sums": sums}
