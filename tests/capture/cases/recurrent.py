"""Recurrent networks."""

from __future__ import annotations

import torch
from torch import nn

from capture.cases.registry import Code, case

TOPIC = "recurrent"


@case(TOPIC, "an LSTM with its state in two attributes")
class Lstm(Code):
    def __init__(self) -> None:
        self.lstm, self.head = nn.LSTM(4, 6), nn.Linear(6, 2)
        self.reset()

    def reset(self) -> None:
        self.h, self.c = torch.zeros(1, 1, 6), torch.zeros(1, 1, 6)

    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        out, (self.h, self.c) = self.lstm(x.unsqueeze(0), (self.h, self.c))
        return {"y": self.head(out.squeeze(0))}


@case(TOPIC, "an LSTM whose state is None at the start")
class LstmLazy(Code):
    def __init__(self) -> None:
        self.lstm, self.hidden = nn.LSTM(4, 6, batch_first=True).eval(), None

    def reset(self) -> None:
        self.hidden = None

    @torch.inference_mode()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        out, self.hidden = self.lstm(x.unsqueeze(1), self.hidden)
        return {"y": out[:, -1]}


@case(TOPIC, "an LSTM of two layers, state copied in place")
class LstmTwoLayers(Code):
    def __init__(self) -> None:
        self.lstm = nn.LSTM(4, 5, num_layers=2, dropout=0.1).eval()
        self.h, self.c = torch.zeros(2, 1, 5), torch.zeros(2, 1, 5)

    def reset(self) -> None:
        self.h.zero_()
        self.c.zero_()

    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        out, (h, c) = self.lstm(x.unsqueeze(0), (self.h, self.c))
        self.h[:], self.c[:] = h, c
        return {"y": out[0]}


@case(TOPIC, "an LSTM with a projection")
class LstmProjected(Code):
    def __init__(self) -> None:
        self.lstm = nn.LSTM(4, 6, proj_size=3)
        self.reset()

    def reset(self) -> None:
        self.hidden = (torch.zeros(1, 1, 3), torch.zeros(1, 1, 6))

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        out, self.hidden = self.lstm(x.unsqueeze(0), self.hidden)
        return {"y": out[0]}


@case(TOPIC, "an LSTM in both directions over a history")
class LstmBothWays(Code):
    inputs = {"x": (1, 5, 4)}

    def __init__(self) -> None:
        self.lstm = nn.LSTM(4, 3, batch_first=True, bidirectional=True)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        out, (h, _) = self.lstm(x)
        return {"y": out, "h": h.transpose(0, 1).flatten(1)}


@case(TOPIC, "an LSTM without a batch, its state in a dict")
class LstmUnbatched(Code):
    inputs = {"x": (1, 4)}

    def __init__(self) -> None:
        self.lstm = nn.LSTM(4, 6)
        self.reset()

    def reset(self) -> None:
        self.memory = {"h": torch.zeros(1, 6), "c": torch.full((1, 6), 0.1)}

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        out, (self.memory["h"], self.memory["c"]) = self.lstm(x, (self.memory["h"], self.memory["c"]))
        return {"y": out}


@case(TOPIC, "a GRU with an MLP as its head, hidden state detached")
class Gru(Code):
    def __init__(self) -> None:
        self.gru = nn.GRU(4, 6)
        self.head = nn.Sequential(nn.Linear(6, 4), nn.ELU(), nn.Linear(4, 2))
        self.reset()

    def reset(self) -> None:
        self.hidden = torch.zeros(1, 1, 6)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        out, hidden = self.gru(x.unsqueeze(0), self.hidden)
        self.hidden = hidden.detach()
        return {"y": self.head(out.squeeze(0))}


@case(TOPIC, "a GRU of two layers, batch first, started lazily")
class GruLazy(Code):
    inputs = {"x": (2, 4)}

    def __init__(self) -> None:
        self.gru, self.hidden = nn.GRU(4, 5, num_layers=2, batch_first=True), None

    def reset(self) -> None:
        self.hidden = None

    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if self.hidden is None:
            self.hidden = torch.zeros(2, x.shape[0], 5)
        out, self.hidden = self.gru(x[:, None], self.hidden)
        return {"y": out[:, 0]}


@case(TOPIC, "rows of the hidden state cleared where an input says so")
class GruDone(Code):
    inputs = {"x": (2, 4), "done": lambda generator: torch.rand(2, generator=generator) > 0.7}

    def __init__(self) -> None:
        self.gru, self.hidden = nn.GRU(4, 5), torch.zeros(1, 2, 5)

    def reset(self) -> None:
        self.hidden = torch.zeros(1, 2, 5)

    @torch.no_grad()
    def step(self, x: torch.Tensor, done: torch.Tensor) -> dict[str, torch.Tensor]:
        self.hidden[..., done, :] = 0.0
        out, self.hidden = self.gru(x[None], self.hidden)
        return {"y": out[0]}


@case(TOPIC, "an LSTM cell")
class LstmCell(Code):
    def __init__(self) -> None:
        self.cell = nn.LSTMCell(4, 6)
        self.reset()

    def reset(self) -> None:
        self.state = (torch.zeros(1, 6), torch.zeros(1, 6))

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.state = self.cell(x, self.state)
        return {"y": self.state[0]}


@case(TOPIC, "a GRU cell")
class GruCell(Code):
    def __init__(self) -> None:
        self.cell, self.h = nn.GRUCell(4, 6), torch.zeros(1, 6)

    def reset(self) -> None:
        self.h = torch.zeros(1, 6)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.h = self.cell(x, self.h)
        return {"y": self.h}


@case(TOPIC, "a plain RNN with tanh, and an RNN cell with relu")
class Rnn(Code):
    def __init__(self) -> None:
        self.rnn, self.cell = nn.RNN(4, 5), nn.RNNCell(5, 3, nonlinearity="relu")
        self.reset()

    def reset(self) -> None:
        self.h, self.g = torch.zeros(1, 1, 5), torch.zeros(1, 3)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        out, self.h = self.rnn(x.unsqueeze(0), self.h)
        self.g = self.cell(out[0], self.g)
        return {"y": self.g}


@case(TOPIC, "a GRU written by hand, one matrix for all gates")
class HandWritten(Code):
    def __init__(self) -> None:
        self.wx, self.wh, self.h = nn.Linear(4, 18), nn.Linear(6, 18, bias=False), torch.zeros(1, 6)

    def reset(self) -> None:
        self.h.zero_()

    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        xr, xz, xn = self.wx(x).chunk(3, dim=-1)
        hr, hz, hn = self.wh(self.h).chunk(3, dim=-1)
        z = torch.sigmoid(xz + hz)
        n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
        self.h.mul_(z).add_((1 - z) * n)
        return {"y": self.h}


@case(TOPIC, "two networks with a hidden state each, in a list of tuples")
class TwoMemories(Code):
    def __init__(self) -> None:
        self.nets = nn.ModuleList([nn.LSTM(4, 3), nn.LSTM(4, 5)])
        self.reset()

    def reset(self) -> None:
        self.hidden = [(torch.zeros(1, 1, n), torch.zeros(1, 1, n)) for n in (3, 5)]

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        outs = []
        for index, net in enumerate(self.nets):
            out, self.hidden[index] = net(x[None], self.hidden[index])
            outs.append(out[0])
        return {"y": torch.cat(outs, dim=-1)}


@case(TOPIC, "a hidden state that starts at a learnt value")
class LearntStart(Code):
    def __init__(self) -> None:
        self.gru, self.start = nn.GRU(4, 6), nn.Parameter(torch.randn(1, 1, 6))
        self.reset()

    def reset(self) -> None:
        self.h = self.start

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        out, self.h = self.gru(x[None], self.h)
        return {"y": out[0]}


@case(TOPIC, "a hidden state that is never reset")
class NeverReset(Code):
    def __init__(self) -> None:
        self.gru, self.h = nn.GRU(4, 6), torch.zeros(1, 1, 6)

    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        out, self.h = self.gru(x[None], self.h)
        return {"y": out[0]}


@case(TOPIC, "a key-value cache of fixed length, shifted")
class Cache(Code):
    def __init__(self) -> None:
        self.q, self.k, self.v = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.keys, self.values = torch.zeros(1, 5, 4), torch.zeros(1, 5, 4)

    def reset(self) -> None:
        self.keys.zero_()
        self.values.zero_()

    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.keys = torch.cat((self.keys[:, 1:], self.k(x)[:, None]), dim=1)
        self.values = torch.cat((self.values[:, 1:], self.v(x)[:, None]), dim=1)
        y = nn.functional.scaled_dot_product_attention(self.q(x)[:, None], self.keys, self.values)
        return {"y": y[:, 0]}


@case(TOPIC, "a key-value cache that grows", "changing_shape")
class GrowingCache(Code):
    def __init__(self) -> None:
        self.k = nn.Linear(4, 4)
        self.reset()

    def reset(self) -> None:
        self.keys = torch.zeros(1, 0, 4)

    @torch.no_grad()
    def step(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.keys = torch.cat((self.keys, self.k(x)[:, None]), dim=1)
        return {"y": torch.softmax(x @ self.keys[0].T, dim=-1) @ self.keys[0]}
