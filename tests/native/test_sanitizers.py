"""Compiled policies under the address and the undefined-behaviour sanitizer, for many random steps."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import STRICT
from models import Model
from test_operators import MOVEMENT, RECURRENT, ROWS, WINDOWS

import support
from ashore.backends.c import generate
from ashore.package import Package
from graphs import SUBJECTS, write_subject

SANITIZE = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-ffp-contract=off")
DRIVER = r"""
#include "policy.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t seed = 1;

static double draw(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) / (1 << 24);
}

static void fill(const ashore_port *ports, size_t count, char *in)
{
    for (size_t p = 0; p < count; ++p)
        for (size_t i = 0; i < ports[p].count; ++i) {
            char *const at = in + ports[p].offset + i * (ports[p].bytes / ports[p].count);
            const float single = (float)(draw() * 4 - 2);
            const double twice = draw() * 4 - 2;
            const uint64_t whole = draw() < 0.5; /* its first bytes are those of a narrower one */
            if (ports[p].dtype == ASHORE_FLOAT32)
                memcpy(at, &single, sizeof single);
            else if (ports[p].dtype == ASHORE_FLOAT64)
                memcpy(at, &twice, sizeof twice);
            else
                memcpy(at, &whole, ports[p].bytes / ports[p].count);
        }
}

int main(int count, char **arguments)
{
    const ashore_contract *const c = &CONTRACT;
    /* Each in memory of its own and of its exact size, so that a byte too far is seen. */
    void *const policy = calloc(1, c->policy_size), *const states = malloc(c->states_size);
    char *const in = calloc(1, c->step_in_size), *const out = malloc(c->step_out_size);
    char *const sub_in = calloc(1, c->substep_in_size), *const sub_out = malloc(c->substep_out_size);
    long done = 0;
    (void)count;
    c->reset(policy);
    for (long step = 0; step < atol(arguments[1]); ++step) {
        if (step % 500 == 499)
            c->reset(policy);
        fill(c->step_inputs, c->step_input_count, in);
        if (step % 1000 == 7)
            memset(in, 0xFF, c->step_in_size);
        done += c->step(policy, in, out) == ASHORE_OK;
        for (int i = 0; c->substep && i < 2; ++i) {
            fill(c->substep_inputs, c->substep_input_count, sub_in);
            c->substep(policy, sub_in, sub_out);
        }
        c->get_states(policy, states);
        c->set_states(policy, states, 1);
    }
    printf("%ld\n", done);
    free(policy), free(states), free(in), free(out), free(sub_in), free(sub_out);
    return 0;
}
"""


def subject(name: str) -> Callable[[Path], Package]:
    return lambda out: write_subject(SUBJECTS[name](), out)


PACKAGES: dict[str, tuple[Callable[[Path], Package], int]] = {
    "arm": (support.write_arm, 10_000),
    "pipeline": (subject("Pipeline, 7 inputs"), 10_000),
    "lstm": (subject("LSTM 48-64, head 12"), 10_000),
    "transformer": (subject("Transformer 8x128, 2 layers"), 50),
    "movement": (Model(MOVEMENT).package, 200),
    "rows": (Model(ROWS).package, 200),
    "recurrent": (Model(RECURRENT).package, 500),
    "windows": (Model(WINDOWS).package, 50),
}


@pytest.mark.parametrize("name", PACKAGES)
def test_nothing_is_found_in_many_random_steps(name: str, tmp_path: Path) -> None:
    make, steps = PACKAGES[name]
    source = generate(make(tmp_path / "package"))
    for file, content in source.files.items():
        (tmp_path / file).write_bytes(content)
    (tmp_path / "main.c").write_text(DRIVER.replace("CONTRACT", f"ashore_{source.name}_contract"))
    files = [str(tmp_path / "policy.c"), str(tmp_path / "main.c"), *map(str, tmp_path.glob("*.S"))]
    program = tmp_path / "program"
    command = ["gcc", "-std=c99", *STRICT, *SANITIZE, f"-I{tmp_path}", f"-Wa,-I{tmp_path}", *files, "-o", str(program)]
    made = subprocess.run([*command, "-lm"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    done = subprocess.run([str(program), str(steps)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    assert int(done.stdout) > steps * 0.4
