"""Networks."""

from __future__ import annotations

import copy
import io

import torch
from torch import nn
from torch.nn import functional

from capture.cases.registry import Code, case

TOPIC = "module"


class _Net(Code):
    def __init__(self) -> None:
        self.net = self.make().eval()

    def make(self) -> nn.Module:
        raise NotImplementedError

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.net(x)}


@case(TOPIC, "a plain MLP whose parameters require gradients")
class Mlp(_Net):
    def make(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.ELU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))


@case(TOPIC, "every activation that policies use")
class Activations(_Net):
    def make(self) -> nn.Module:
        kinds = [nn.ReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Softplus, nn.Softsign, nn.Hardtanh]
        kinds += [
            nn.Hardswish,
            nn.LeakyReLU,
            nn.Sigmoid,
            nn.LogSigmoid,
            nn.PReLU,
            nn.ReLU6,
            nn.Hardsigmoid,
            nn.Tanhshrink,
        ]
        return nn.ModuleList([*(kind() for kind in kinds), nn.GELU("tanh"), nn.Softmax(-1), nn.LogSoftmax(-1)])

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {f"y{index}": kind(x) for index, kind in enumerate(self.net)}


@case(TOPIC, "layer, group, instance and root-mean-square norms")
class Norms(_Net):
    inputs = {"x": (2, 4, 6)}

    def make(self) -> nn.Module:
        norms = [nn.LayerNorm(6), nn.GroupNorm(2, 4), nn.RMSNorm(6), nn.LayerNorm((4, 6), elementwise_affine=False)]
        return nn.Sequential(*norms, nn.InstanceNorm1d(4, affine=True))


@case(TOPIC, "batch norm in eval mode")
class BatchNormEval(_Net):
    inputs = {"x": (2, 4)}

    def make(self) -> nn.Module:
        norm = nn.BatchNorm1d(4)
        norm.running_mean.copy_(torch.tensor([0.1, -0.2, 0.3, 0.0]))
        return nn.Sequential(nn.Linear(4, 4), norm, nn.ReLU(), nn.BatchNorm1d(4, affine=False))


@case(TOPIC, "batch norm in training mode", "training_mode")
class BatchNormTrain(_Net):
    inputs = {"x": (3, 4)}

    def __init__(self) -> None:
        self.net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).train()


@case(TOPIC, "dropout in eval mode")
class DropoutEval(_Net):
    def make(self) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.AlphaDropout(0.1), nn.Linear(8, 2))


@case(TOPIC, "dropout in training mode", "training_mode")
class DropoutTrain(_Net):
    def __init__(self) -> None:
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2)).train()


@case(TOPIC, "a module left in training mode where that makes no difference")
class HarmlessTraining(_Net):
    def __init__(self) -> None:
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ELU(), nn.Linear(8, 2)).train()


@case(TOPIC, "an encoder of images, uint8 scaled to floats")
class ImageEncoder(_Net):
    inputs = {"x": lambda generator: torch.randint(0, 256, (1, 3, 16, 16), generator=generator, dtype=torch.uint8)}

    def make(self) -> nn.Module:
        head = [nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.BatchNorm2d(4)]
        return nn.Sequential(*head, nn.Conv2d(4, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.net(x.float() / 255.0 - 0.5)}


@case(TOPIC, "a convolution over a history")
class HistoryConvolution(_Net):
    def make(self) -> nn.Module:
        self.history = torch.zeros(1, 4, 8)
        net = nn.Sequential(nn.Conv1d(4, 6, 4, stride=2), nn.ELU(), nn.Conv1d(6, 2, 2, groups=2))
        return net.append(nn.Flatten()).append(nn.Linear(4, 3))

    def reset(self) -> None:
        self.history.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.history = torch.cat((self.history[..., 1:], x.unsqueeze(-1)), dim=-1)
        return {"y": self.net(self.history)}


@case(TOPIC, "multi-head attention over entities")
class Attention(_Net):
    inputs = {"x": (1, 3, 8)}

    def make(self) -> nn.Module:
        return nn.MultiheadAttention(8, 2, batch_first=True)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y, weights = self.net(x, x, x)
        return {"y": y, "weights": weights}


@case(TOPIC, "multi-head attention on its fast path, under inference mode")
class FastAttention(Attention):
    @torch.inference_mode()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y, _ = self.net(x, x, x, need_weights=False)
        return {"y": y}


@case(TOPIC, "a transformer encoder")
class Encoder(_Net):
    inputs = {"x": (1, 3, 8)}

    def make(self) -> nn.Module:
        layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True, norm_first=False)
        return nn.TransformerEncoder(layer, 2)


@case(TOPIC, "a transformer encoder on its fast path, under no_grad")
class FastEncoder(Encoder):
    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.net(x)}


@case(TOPIC, "a causal transformer over a history with a padding mask that is a state")
class MaskedEncoder(_Net):
    inputs = {"x": (1, 8)}

    def make(self) -> nn.Module:
        self.history, self.valid = torch.zeros(1, 4, 8), torch.zeros(1, 4, dtype=torch.bool)
        return nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True, dropout=0.0)

    def reset(self) -> None:
        self.history.zero_()
        self.valid.zero_()

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.history = torch.cat((self.history[:, 1:], x[:, None]), dim=1)
        self.valid = torch.cat((self.valid[:, 1:], torch.ones(1, 1, dtype=torch.bool)), dim=1)
        return {"y": self.net(self.history, src_key_padding_mask=~self.valid)[:, -1]}


@case(TOPIC, "scaled dot-product attention, plain, masked, causal, scaled")
class DotProduct(Code):
    inputs = {"q": (1, 2, 3, 4), "k": (1, 2, 3, 4)}

    def step(self, q: torch.Tensor, k: torch.Tensor) -> dict[str, torch.Tensor]:
        mask = torch.tensor([[True, True, False], [True, True, True], [False, True, True]])
        plain = functional.scaled_dot_product_attention(q, k, k)
        return {
            "plain": plain,
            "masked": functional.scaled_dot_product_attention(q, k, k, attn_mask=mask),
            "causal": functional.scaled_dot_product_attention(q, k, k, is_causal=True),
            "scaled": functional.scaled_dot_product_attention(q, k, k, scale=0.1),
            "biased": functional.scaled_dot_product_attention(q, k, k, attn_mask=torch.ones(3, 3).tril() * -2.0),
        }


class _Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.register_buffer("last", torch.zeros(1, 4))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.last = torch.tanh(self.linear(torch.cat((x, self.last), dim=-1)))
        return self.last / self.calls.clamp(max=3)


@case(TOPIC, "buffers of a module, updated in forward")
class Stateful(_Net):
    def make(self) -> nn.Module:
        return _Stateful()

    def reset(self) -> None:
        self.net.last = torch.zeros(1, 4)
        self.net.calls.zero_()


class _Recurrent(nn.Module):
    """What legged_gym exports: an LSTM that keeps its own state."""

    def __init__(self) -> None:
        super().__init__()
        self.memory, self.actor = nn.LSTM(4, 6), nn.Linear(6, 2)
        self.register_buffer("hidden", torch.zeros(1, 1, 6))
        self.register_buffer("cell", torch.zeros(1, 1, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, (h, c) = self.memory(x.unsqueeze(0), (self.hidden, self.cell))
        self.hidden[:] = h
        self.cell[:] = c
        return self.actor(out.squeeze(0))

    @torch.jit.export
    def reset_memory(self) -> None:
        self.hidden[:] = 0.0
        self.cell[:] = 0.0


@case(TOPIC, "a scripted recurrent policy loaded from a file")
class LoadedScript(Code):
    def __init__(self) -> None:
        file = io.BytesIO()
        torch.jit.save(torch.jit.script(_Recurrent().eval()), file)
        file.seek(0)
        self.policy = torch.jit.load(file)

    def reset(self) -> None:
        self.policy.reset_memory()

    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"action": self.policy(x)}


@case(TOPIC, "a traced policy, frozen")
class TracedFrozen(Code):
    def __init__(self) -> None:
        net = nn.Sequential(nn.Linear(4, 8), nn.ELU(), nn.LayerNorm(8), nn.Linear(8, 2)).eval()
        self.policy = torch.jit.freeze(torch.jit.trace(net, torch.zeros(1, 4)))

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"action": self.policy(x)}


@case(TOPIC, "a module that was compiled")
class CompiledModule(_Net):
    def __init__(self) -> None:
        self.net = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.ELU(), nn.Linear(8, 2)).eval(), backend="eager")


@case(TOPIC, "weight norm, spectral norm and an orthogonal parametrization")
class Parametrized(_Net):
    def make(self) -> nn.Module:
        weight = nn.utils.parametrizations.weight_norm(nn.Linear(4, 6))
        spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6))
        return nn.Sequential(weight, nn.ELU(), spectral.eval(), nn.Linear(6, 2))


@case(TOPIC, "an ensemble of networks by vmap and functional_call")
class Ensemble(Code):
    def __init__(self) -> None:
        nets = [nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).eval() for _ in range(3)]
        self.params, self.buffers = torch.func.stack_module_state(nets)
        self.base = copy.deepcopy(nets[0])

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        def call(params: dict[str, torch.Tensor], buffers: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
            return torch.func.functional_call(self.base, (params, buffers), (x,))

        votes = torch.vmap(call, in_dims=(0, 0, None))(self.params, self.buffers, x)
        return {"mean": votes.mean(0), "spread": votes.std(0)}


@case(TOPIC, "frozen parameters and one that requires a gradient")
class Frozen(_Net):
    def make(self) -> nn.Module:
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        net[0].requires_grad_(False)
        self.gain = nn.Parameter(torch.tensor([2.0, 0.5]))
        return net

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.net(x) * self.gain + self.gain.exp()}


@case(TOPIC, "a mixture of experts, weighted by a gate")
class Experts(_Net):
    def make(self) -> nn.Module:
        experts = nn.ModuleList(nn.Linear(4, 2) for _ in range(3))
        return nn.ModuleDict({"experts": experts, "gate": nn.Linear(4, 3)})

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        weights = torch.softmax(self.net["gate"](x), dim=-1)
        answers = torch.stack([expert(x) for expert in self.net["experts"]], dim=1)
        return {"y": (weights.unsqueeze(-1) * answers).sum(1), "best": answers[torch.arange(1), weights.argmax(-1)]}


@case(TOPIC, "a forward hook that scales, and one that only looks")
class Hooked(_Net):
    def make(self) -> nn.Module:
        net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.seen: list[torch.Tensor] = []
        net[0].register_forward_hook(lambda module, args, output: output * 2)
        net[1].register_forward_hook(lambda module, args, output: self.seen.append(output.detach()))
        return net


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.round().clamp(-1, 1)

    @staticmethod
    def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
        return grad


@case(TOPIC, "an autograd function of one's own")
class OwnFunction(_Net):
    def make(self) -> nn.Module:
        return nn.Linear(4, 4)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": _StraightThrough.apply(self.net(x) * 3)}


@torch.library.custom_op("ashore_cases::shrink", mutates_args=())
def _shrink(x: torch.Tensor) -> torch.Tensor:
    return torch.sign(x) * torch.relu(x.abs() - 0.1)


@case(TOPIC, "an operation registered by the user", "unsupported_operation")
class OwnOperation(Code):
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": _shrink(x) * 2}


@case(TOPIC, "weights that learn while it runs")
class Learns(Code):
    def __init__(self) -> None:
        self.net = nn.Linear(4, 1)
        self.first = copy.deepcopy(self.net.state_dict())

    def reset(self) -> None:
        self.net.load_state_dict(self.first)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.net(x)
        gradients = torch.autograd.grad((y - 1.0).square().sum(), list(self.net.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(self.net.parameters(), gradients, strict=True):
                parameter.sub_(gradient, alpha=0.01)
        return {"y": y}


@case(TOPIC, "a transposed convolution, upsampling and pixel shuffle")
class Decoder(_Net):
    inputs = {"x": (1, 4, 3, 3)}

    def make(self) -> nn.Module:
        up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        net = nn.Sequential(nn.ConvTranspose2d(4, 4, 2, stride=2), nn.PixelShuffle(2), up)
        return net.append(nn.ZeroPad2d(1)).append(nn.AvgPool2d(2))
