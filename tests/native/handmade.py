"""The package `arm` of `support`, compiled by hand: a library to open, and to spoil, whatever the generator does."""

from __future__ import annotations

from typing import NamedTuple

from ashore.backends.c.calling import SOURCES

ARM = r"""
#include "ashore.h"
#include <math.h>
#include <string.h>

typedef struct { float q[2]; } step_in;
typedef struct { float action[2]; } step_out;
typedef struct { float v[2]; } substep_in;
typedef struct { float torque[2]; } substep_out;
typedef struct { float action[2]; float filter[2]; int64_t ticks[1]; } states;
typedef struct { states now; int decided, unchecked, port; size_t element; } arm;

#define NAMED(port) #port, 0, 0, 0, 0, 0, 0, 0
#define PAIR(port, of) {NAMED(port), ASHORE_FLOAT32, 1, 0, 2, {1, 2}, 2, 8, offsetof(of, port), 0, 0, 0, 0}
#define COUNT(port, of) {NAMED(port), ASHORE_INT64, 1, 1, 1, {1}, 1, 8, offsetof(of, port), 0, 0, 0, 0}
static const ashore_port step_inputs[] = {PAIR(q, step_in)};
static const ashore_port step_outputs[] = {PAIR(action, step_out)};
static const ashore_port substep_inputs[] = {PAIR(v, substep_in)};
static const ashore_port substep_outputs[] = {PAIR(torque, substep_out)};
static const ashore_port kept[] = {PAIR(action, states), PAIR(filter, states), COUNT(ticks, states)};

static int bad(arm *self, const float *values, int port)
{
    for (size_t element = 0; element < 2 && !self->unchecked; element++) {
        if (!isfinite(values[element])) {
            self->port = port;
            self->element = element;
            return 1;
        }
    }
    return 0;
}

static void reset(void *policy) { ((arm *)policy)->decided = 0; }

static ashore_status step(void *policy, const void *in, void *out)
{
    arm *self = policy;
    const float *q = ((const step_in *)in)->q;
    float action[2];
    /* here */
    if (bad(self, q, 0)) return ASHORE_BAD_INPUT;
    for (int k = 0; k < 2; k++) action[k] = q[k] * 2.0f + self->now.action[k] * 0.5f;
    if (bad(self, action, 1)) return ASHORE_BAD_RESULT;
    memcpy(out, action, sizeof action);
    memcpy(self->now.action, action, sizeof action);
    self->now.ticks[0] = 0;
    self->decided = 1;
    return ASHORE_OK;
}

static ashore_status substep(void *policy, const void *in, void *out)
{
    arm *self = policy;
    const float *v = ((const substep_in *)in)->v;
    float filter[2], torque[2];
    if (!self->decided) return ASHORE_NOT_DECIDED;
    if (bad(self, v, 0)) return ASHORE_BAD_INPUT;
    for (int k = 0; k < 2; k++) {
        filter[k] = self->now.filter[k] + (self->now.action[k] - self->now.filter[k]) * 0.5f;
        torque[k] = filter[k] - v[k] * 0.1f;
    }
    if (bad(self, torque, 0) || bad(self, filter, 2)) return ASHORE_BAD_RESULT;
    memcpy(out, torque, sizeof torque);
    memcpy(self->now.filter, filter, sizeof filter);
    self->now.ticks[0]++;
    return ASHORE_OK;
}

static void get_states(const void *policy, void *now) { memcpy(now, &((const arm *)policy)->now, sizeof(states)); }

static void set_states(void *policy, const void *now, int decided)
{
    memcpy(&((arm *)policy)->now, now, sizeof(states));
    ((arm *)policy)->decided = decided;
}

static int decided(const void *policy) { return ((const arm *)policy)->decided; }
static void set_unchecked(void *policy, int unchecked) { ((arm *)policy)->unchecked = unchecked; }

static void fault(const void *policy, int *port, size_t *element)
{
    *port = ((const arm *)policy)->port;
    *element = ((const arm *)policy)->element;
}

__attribute__((visibility("default"))) const ashore_contract ashore_arm_contract = {
    ASHORE_ABI_VERSION, "arm", 0, "by hand", 1, 0.02, 0.005, 4, step_inputs, 1, step_outputs, 1, substep_inputs, 1,
    substep_outputs, 1, kept, 3, 0, 0, sizeof(arm), 8, sizeof(step_in), sizeof(step_out), sizeof(substep_in),
    sizeof(substep_out), sizeof(states), reset, step, substep, get_states, set_states, decided, set_unchecked, fault
};
"""


class Source(NamedTuple):
    """What a generator gives."""

    name: str
    files: dict[str, bytes]


def arm(old: str = "", new: str = "") -> Source:
    """The sources, with a part of them replaced."""
    assert old in ARM
    return Source("arm", {"policy.c": ARM.replace(old, new).encode(), "ashore.h": SOURCES["ashore.h"].read_bytes()})
