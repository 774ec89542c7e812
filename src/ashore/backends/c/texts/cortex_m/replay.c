/* Replays the golden rollout of the package on the target, compares every output and state, and says how far off the
 * worst was. It exits with 0 if all are within the tolerance of the package. */
#include <math.h>
#include <string.h>

#include "board.h"
#include "golden.h"
#include "policy.h"

static @POLICY@ policy;
static union {
    @POLICY@_step_in step;
    @POLICY@_substep_in substep;
} in;
static union {
    @POLICY@_step_out step;
    @POLICY@_substep_out substep;
} out;
static @POLICY@_states states;
static double worst;
static const char *worst_port = "";
static int wrong;

static void print_number(double value) {
    char text[16];
    int exponent = 0, at = 0;
    if (!(value < 1e300)) {
        board_print(value == value ? "inf" : "nan");
        return;
    }
    while (value >= 10.0) value /= 10.0, ++exponent;
    while (value > 0.0 && value < 1.0) value *= 10.0, --exponent;
    for (int digit = 0; digit < 3; ++digit) {
        const int whole = (int)value;
        text[at++] = (char)('0' + whole);
        if (digit == 0) text[at++] = '.';
        value = (value - whole) * 10.0;
    }
    text[at++] = 'e';
    text[at++] = exponent < 0 ? '-' : '+';
    if (exponent < 0) exponent = -exponent;
    if (exponent >= 100) text[at++] = (char)('0' + exponent / 100);
    text[at++] = (char)('0' + exponent / 10 % 10);
    text[at++] = (char)('0' + exponent % 10);
    text[at] = '\0';
    board_print(text);
}

static void print_count(unsigned long value) {
    char text[12];
    int at = sizeof text - 1;
    text[at] = '\0';
    do text[--at] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    board_print(text + at);
}

static void compare_one(const ashore_port *port, double got, double wanted, int same_bytes, int whole) {
    double difference;
    if (same_bytes || got == wanted || (got != got && wanted != wanted)) return;
    difference = fabs(got - wanted);
    if (!(difference <= worst)) worst = difference, worst_port = port->name;
    if (whole || !(difference <= golden_atol + golden_rtol * fabs(wanted))) ++wrong;
}

/* What was computed for a port against the rollout's next bytes. */
static const unsigned char *compare(const ashore_port *port, const void *base, const unsigned char *wanted) {
    const unsigned char *got = (const unsigned char *)base + port->offset;
    size_t i;
    for (i = 0; i < port->count; ++i) {
        const size_t size = port->bytes / port->count;
        const unsigned char *a = got + i * size, *b = wanted + i * size;
        if (port->dtype == ASHORE_FLOAT32) {
            float x, y;
            memcpy(&x, a, sizeof x);
            memcpy(&y, b, sizeof y);
            compare_one(port, (double)x, (double)y, 0, 0);
        } else if (port->dtype == ASHORE_FLOAT64) {
            double x, y;
            memcpy(&x, a, sizeof x);
            memcpy(&y, b, sizeof y);
            compare_one(port, x, y, 0, 0);
        } else {
            compare_one(port, 1.0, 0.0, memcmp(a, b, size) == 0, 1);
        }
    }
    return wanted + port->bytes;
}

int main(void) {
    const ashore_contract *contract = &@POLICY@_contract;
    const unsigned char *next = golden_values;
    unsigned long tick, at;
    size_t i;
    if (strcmp(contract->digest, golden_digest) != 0) {
        board_print("golden.c is of another package\n");
        return 2;
    }
    contract->reset(&policy);
    for (tick = 0; tick < golden_ticks; ++tick) {
        const int substep = golden_calls[tick] & 1;
        const ashore_port *inputs = substep ? contract->substep_inputs : contract->step_inputs;
        const ashore_port *outputs = substep ? contract->substep_outputs : contract->step_outputs;
        const size_t input_count = substep ? contract->substep_input_count : contract->step_input_count;
        const size_t output_count = substep ? contract->substep_output_count : contract->step_output_count;
        ashore_status status;
        if ((golden_calls[tick] & 2) && tick != 0) contract->reset(&policy);
        for (i = 0; i < input_count; ++i) {
            memcpy((unsigned char *)&in + inputs[i].offset, next, inputs[i].bytes);
            next += inputs[i].bytes;
        }
        status = substep ? contract->substep(&policy, &in, &out) : contract->step(&policy, &in, &out);
        if (status != ASHORE_OK) {
            board_print("refused in tick ");
            print_count(tick);
            board_print("\n");
            return 1;
        }
        contract->get_states(&policy, &states);
        for (i = 0; i < output_count; ++i) next = compare(&outputs[i], &out, next);
        for (i = 0; i < contract->state_count; ++i) next = compare(&contract->states[i], &states, next);
    }
    at = (unsigned long)(next - golden_values);
    board_print(wrong || at != golden_size ? "FAILED: " : "passed: ");
    print_count(golden_ticks);
    board_print(" ticks, largest error ");
    print_number(worst);
    board_print(worst_port[0] != '\0' ? " in " : "");
    board_print(worst_port);
    board_print(", stack ");
    print_count((unsigned long)board_stack_used());
    board_print(" bytes\n");
    return wrong != 0 || at != golden_size;
}
