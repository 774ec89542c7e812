"""Rotations, frames and geometry."""

from __future__ import annotations

import torch

from capture.cases.registry import Code, case

TOPIC = "rotation"
POSE = {"quat": (2, 4), "vec": (2, 3)}


def quat_rotate_inverse(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    q_w, q_vec = q[:, -1], q[:, :3]
    a = v * (2.0 * q_w**2 - 1.0).unsqueeze(-1)
    b = torch.cross(q_vec, v, dim=-1) * q_w.unsqueeze(-1) * 2.0
    c = q_vec * torch.bmm(q_vec.view(q.shape[0], 1, 3), v.view(q.shape[0], 3, 1)).squeeze(-1) * 2.0
    return a - b + c


@torch.jit.script
def scripted_rotate_inverse(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    shape = q.shape
    q_w = q[:, 0]
    q_vec = q[:, 1:]
    a = v * (2.0 * q_w**2 - 1.0).unsqueeze(-1)
    b = torch.cross(q_vec, v, dim=-1) * q_w.unsqueeze(-1) * 2.0
    c = q_vec * torch.bmm(q_vec.view(shape[0], 1, 3), v.view(shape[0], 3, 1)).squeeze(-1) * 2.0
    return a - b + c


@torch.jit.script
def quat_mul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    shape = a.shape
    a = a.reshape(-1, 4)
    b = b.reshape(-1, 4)
    w1, x1, y1, z1 = a[:, 0], a[:, 1], a[:, 2], a[:, 3]
    w2, x2, y2, z2 = b[:, 0], b[:, 1], b[:, 2], b[:, 3]
    ww = (z1 + x1) * (x2 + y2)
    yy = (w1 - y1) * (w2 + z2)
    zz = (w1 + y1) * (w2 - z2)
    xx = ww + yy + zz
    qq = 0.5 * (xx + (z1 - x1) * (x2 - y2))
    w = qq - ww + (z1 - y1) * (y2 - z2)
    x = qq - xx + (x1 + w1) * (x2 + w2)
    y = qq - yy + (w1 - x1) * (y2 + z2)
    z = qq - zz + (z1 + y1) * (w2 - x2)
    return torch.stack([w, x, y, z], dim=-1).view(shape)


@torch.jit.script
def wrap_to_pi(angles: torch.Tensor) -> torch.Tensor:
    angles = angles % (2 * torch.pi)
    return torch.where(angles > torch.pi, angles - 2 * torch.pi, angles)


@torch.jit.script
def scripted_loop(x: torch.Tensor, times: int) -> torch.Tensor:
    y = torch.zeros_like(x)
    for index in range(times):
        if index % 2 == 0:
            y = y + x * float(index)
        else:
            y[:, 0] += 1.0
    return y


@torch.jit.script
def scripted_branch(x: torch.Tensor) -> torch.Tensor:
    if bool(x.sum() > 100.0):
        return -x
    return x * 2.0


def yaw_of(quat: torch.Tensor) -> torch.Tensor:
    w, x, y, z = torch.unbind(quat, dim=-1)
    return torch.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


@case(TOPIC, "projected gravity")
class Gravity(Code):
    inputs = {"quat": (2, 4)}

    def __init__(self) -> None:
        self.down = torch.tensor([0.0, 0.0, -1.0]).repeat(2, 1)

    def step(self, quat: torch.Tensor) -> dict[str, torch.Tensor]:
        quat = quat / quat.norm(dim=-1, keepdim=True)
        return {"gravity": quat_rotate_inverse(quat, self.down)}


@case(TOPIC, "scripted helpers")
class Scripted(Code):
    inputs = POSE

    def __init__(self) -> None:
        self.offset = torch.tensor([[0.9, 0.1, -0.2, 0.3]] * 2)

    def step(self, quat: torch.Tensor, vec: torch.Tensor) -> dict[str, torch.Tensor]:
        turned = quat_mul(torch.nn.functional.normalize(quat), self.offset)
        return {"turned": scripted_rotate_inverse(turned, vec), "heading": wrap_to_pi(vec * 5)}


@case(TOPIC, "a scripted function with a loop and branches on numbers")
class ScriptedLoop(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": scripted_loop(x, 4)}


@case(TOPIC, "a scripted function with a branch on a tensor", "value_leak")
class ScriptedBranch(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": scripted_branch(x)}


@case(TOPIC, "heading error from a quaternion")
class Heading(Code):
    inputs = {"quat": (2, 4), "heading": (2,)}

    def step(self, quat: torch.Tensor, heading: torch.Tensor) -> dict[str, torch.Tensor]:
        error = heading - yaw_of(quat)
        wrapped = torch.remainder(error + torch.pi, 2 * torch.pi) - torch.pi
        return {"turn": torch.clip(0.5 * wrapped, -1.0, 1.0), "also": torch.atan2(torch.sin(error), torch.cos(error))}


@case(TOPIC, "quaternion integrated from the angular velocity")
class Integrated(Code):
    inputs = {"omega": (1, 3)}

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.quat = torch.tensor([[1.0, 0.0, 0.0, 0.0]])

    def step(self, omega: torch.Tensor) -> dict[str, torch.Tensor]:
        rate = torch.cat((torch.zeros(1, 1), omega), dim=-1)
        self.quat = self.quat + 0.5 * 0.02 * quat_mul(self.quat, rate)
        self.quat /= torch.linalg.norm(self.quat, dim=-1, keepdim=True)
        return {"quat": self.quat}


@case(TOPIC, "rotation matrix from a quaternion and six numbers of it")
class Matrix(Code):
    inputs = {"quat": (2, 4)}

    def step(self, quat: torch.Tensor) -> dict[str, torch.Tensor]:
        r, i, j, k = torch.unbind(quat, -1)
        two = 2.0 / (quat * quat).sum(-1)
        entries = (
            1 - two * (j * j + k * k), two * (i * j - k * r), two * (i * k + j * r),
            two * (i * j + k * r), 1 - two * (i * i + k * k), two * (j * k - i * r),
            two * (i * k - j * r), two * (j * k + i * r), 1 - two * (i * i + j * j),
        )  # fmt: skip
        matrix = torch.stack(entries, -1).reshape(*quat.shape[:-1], 3, 3)
        return {"matrix": matrix, "six": matrix[..., :2].reshape(2, -1)}


@case(TOPIC, "euler angles with asin, copysign and sign")
class Euler(Code):
    inputs = {"quat": (2, 4)}

    def step(self, quat: torch.Tensor) -> dict[str, torch.Tensor]:
        w, x, y, z = (quat / quat.norm(dim=-1, keepdim=True)).unbind(-1)
        sine = 2.0 * (w * y - z * x)
        half = torch.full_like(sine, torch.pi / 2)
        pitch = torch.where(sine.abs() >= 1, torch.copysign(half, sine), torch.asin(sine))
        roll = torch.atan2(2.0 * (w * x + y * z), 1 - 2.0 * (x * x + y * y))
        return {"euler": torch.stack((roll, pitch, torch.sign(z)), dim=-1)}


@case(TOPIC, "spherical interpolation with a small-angle branch by where")
class Slerp(Code):
    inputs = {"a": (2, 4), "b": (2, 4)}

    def step(self, a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
        a, b = torch.nn.functional.normalize(a, dim=-1), torch.nn.functional.normalize(b, dim=-1)
        cosine = (a * b).sum(-1, keepdim=True)
        b, cosine = torch.where(cosine < 0, -b, b), cosine.abs().clamp(max=1.0 - 1e-6)
        angle = torch.acos(cosine)
        mixed = (torch.sin(0.7 * angle) * a + torch.sin(0.3 * angle) * b) / torch.sin(angle)
        return {"q": torch.where(cosine > 0.9995, torch.lerp(a, b, 0.3), mixed)}


@case(TOPIC, "a helper for one body mapped over all, with vmap")
class Mapped(Code):
    inputs = {"matrix": (3, 2, 2), "vec": (3, 2)}

    def step(self, matrix: torch.Tensor, vec: torch.Tensor) -> dict[str, torch.Tensor]:
        def one(m: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return torch.tanh(m @ v) + m.diagonal()

        return {"y": torch.vmap(one)(matrix, vec)}


@case(TOPIC, "vmap with a state written by its result")
class MappedState(Code):
    inputs = {"x": (3, 4)}

    def __init__(self) -> None:
        self.state = torch.zeros(3, 4)

    def reset(self) -> None:
        self.state.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        update = torch.vmap(lambda s, v, g: s * g + v.cumsum(0), in_dims=(0, 0, None))
        self.state[:] = update(self.state, x, torch.tensor(0.5))
        return {"y": self.state}


@case(TOPIC, "a helper that is compiled")
class Compiled(Code):
    inputs = POSE

    def __init__(self) -> None:
        self.rotate = torch.compile(quat_rotate_inverse, backend="eager")

    def step(self, quat: torch.Tensor, vec: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"turned": self.rotate(quat, vec)}


@case(TOPIC, "forward kinematics of a leg, in a loop over joints")
class Kinematics(Code):
    inputs = {"joints": (1, 3)}

    def __init__(self) -> None:
        self.links = [0.1, 0.3, 0.3]

    def step(self, joints: torch.Tensor) -> dict[str, torch.Tensor]:
        position, angle = torch.zeros(1, 2), torch.zeros(1)
        for joint, length in enumerate(self.links):
            angle = angle + joints[:, joint]
            position = position + length * torch.stack([torch.cos(angle), torch.sin(angle)], dim=-1)
        return {"foot": position}


@case(TOPIC, "the Jacobian of the kinematics by autograd")
class Jacobian(Code):
    inputs = {"joints": (3,)}

    def step(self, joints: torch.Tensor) -> dict[str, torch.Tensor]:
        def foot(q: torch.Tensor) -> torch.Tensor:
            angle = torch.cumsum(q, 0)
            return torch.stack((torch.cos(angle).sum(), torch.sin(angle).sum()))

        return {"jacobian": torch.func.jacrev(foot)(joints), "forward": torch.func.jacfwd(foot)(joints)}


@case(TOPIC, "the gradient of a potential by torch.autograd.grad")
class Gradient(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            energy = (x.square() * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum() + torch.sin(x).prod()
            (force,) = torch.autograd.grad(energy, x)
        return {"force": -force}


@case(TOPIC, "einsum and batched products")
class Einsum(Code):
    inputs = {"r": (2, 3, 3), "points": (2, 5, 3)}

    def step(self, r: torch.Tensor, points: torch.Tensor) -> dict[str, torch.Tensor]:
        turned = torch.einsum("bij,bkj->bki", r, points)
        return {"a": turned, "b": torch.einsum("bki,bki->bk", turned, points), "c": r.transpose(1, 2) @ points.mT}


@case(TOPIC, "distances between points")
class Distances(Code):
    inputs = {"a": (1, 4, 3), "b": (1, 2, 3)}

    def step(self, a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
        near = (a[:, :, None] - b[:, None]).norm(dim=-1)
        return {"all": torch.cdist(a, b), "near": near.min(dim=-1).values, "pair": torch.dist(a[0, 0], b[0, 0])}


@case(TOPIC, "a small linear system solved")
class Solve(Code):
    inputs = {"m": (2, 3, 3), "v": (2, 3)}

    def step(self, m: torch.Tensor, v: torch.Tensor) -> dict[str, torch.Tensor]:
        m = m @ m.mT + torch.eye(3)
        return {"x": torch.linalg.solve(m, v)}


@case(TOPIC, "a Cholesky factor and eigenvalues", "unsupported_operation")
class Factors(Code):
    inputs = {"m": (2, 3, 3)}

    def step(self, m: torch.Tensor) -> dict[str, torch.Tensor]:
        m = m @ m.mT + torch.eye(3)
        return {"factor": torch.linalg.cholesky(m), "values": torch.linalg.eigvalsh(m)}


@case(TOPIC, "the determinant of a small matrix")
class Determinant(Code):
    inputs = {"m": (2, 3, 3)}

    def step(self, m: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"det": torch.linalg.det(m)}


@case(TOPIC, "a Kalman filter of one axis")
class Kalman(Code):
    inputs = {"z": (1, 1)}

    def __init__(self) -> None:
        self.f, self.h = torch.tensor([[1.0, 0.02], [0.0, 1.0]]), torch.tensor([[1.0, 0.0]])
        self.q, self.r = 0.01 * torch.eye(2), 0.1
        self.reset()

    def reset(self) -> None:
        self.x, self.p = torch.zeros(2, 1), torch.eye(2)

    def step(self, z: torch.Tensor) -> dict[str, torch.Tensor]:
        self.x, self.p = self.f @ self.x, self.f @ self.p @ self.f.T + self.q
        gain = self.p @ self.h.T / (self.h @ self.p @ self.h.T + self.r)
        self.x = self.x + gain @ (z - self.h @ self.x)
        self.p = (torch.eye(2) - gain @ self.h) @ self.p
        return {"position": self.x[0], "velocity": self.x[1]}
