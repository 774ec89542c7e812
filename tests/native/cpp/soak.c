/* Runs any policy for many steps with random values, resets and refusals among them, on the heap, where sanitizers see
 * a byte too many. It goes by the tables of the contract, and checks what they promise. Usage: soak STEPS SEED */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"

#define CHECK(what)                                                                       \
    do {                                                                                  \
        if (!(what)) printf("line %d, step %ld: %s\n", __LINE__, done, #what), exit(1); \
    } while (0)

static uint64_t seed;
static long done, refused_inputs, refused_results, resets, substeps;

static uint64_t draw(void) { /* xorshift64* */
    seed ^= seed >> 12, seed ^= seed << 25, seed ^= seed >> 27;
    return seed * 2685821657736338717ull;
}

static double uniform(void) { return (double)(draw() >> 11) * 0x1p-53; }

static double value_of(int wild) {
    const double kind = uniform();
    if (wild && kind < 0.3) return (uniform() - 0.5) * 6e38;
    if (wild && kind < 0.4) return (uniform() - 0.5) * 1e-40;
    if (kind < 0.05) return 0.0;
    return (uniform() - 0.5) * 6.0;
}

static int64_t whole(void) { return uniform() < 0.02 ? (int64_t)draw() : (int64_t)(draw() % 9) - 3; }

/* Fills a port; whether all of it is finite. */
static int fill(const ashore_port *port, unsigned char *base) {
    unsigned char *at = base + port->offset;
    const int wild = uniform() < 0.02;
    const size_t bad = uniform() < 0.02 ? (size_t)draw() % port->count : SIZE_MAX;
    int finite = 1;
    for (size_t i = 0; i < port->count; ++i) {
        const double value = i == bad ? (draw() & 1 ? NAN : -INFINITY) : value_of(wild);
        const float narrow = (float)value;
        const int64_t number = whole();
        switch (port->dtype) {
            case ASHORE_FLOAT32:
                finite &= isfinite(narrow) != 0;
                memcpy(at + 4 * i, &narrow, 4);
                break;
            case ASHORE_FLOAT64:
                finite &= isfinite(value) != 0;
                memcpy(at + 8 * i, &value, 8);
                break;
            case ASHORE_BOOL: at[i] = (unsigned char)(number & 1); break;
            default: memcpy(at + i * (port->bytes / port->count), &number, port->bytes / port->count); break;
        }
    }
    return finite;
}

static int all_finite(const ashore_port *port, const unsigned char *base) {
    for (size_t i = 0; i < port->count; ++i) {
        float narrow = 0;
        double value = 0;
        if (port->dtype == ASHORE_FLOAT32) memcpy(&narrow, base + port->offset + 4 * i, 4);
        if (port->dtype == ASHORE_FLOAT64) memcpy(&value, base + port->offset + 8 * i, 8);
        if (!isfinite(narrow) || !isfinite(value)) return 0;
    }
    return 1;
}

static unsigned char *room(size_t size) {
    unsigned char *made = calloc(1, size != 0 ? size : 1);
    if (made == NULL) exit(2);
    return made;
}

int main(int argc, char **argv) {
    const ashore_contract *const contract = &POLICY_CONTRACT;
    const long steps = argc > 1 ? atol(argv[1]) : 10000;
    unsigned char *policy, *in[2], *out[2], *was[2], *before, *after;
    seed = argc > 2 ? (uint64_t)atoll(argv[2]) : 1;
    if (posix_memalign((void **)&policy, contract->policy_alignment, contract->policy_size) != 0) return 2;
    memset(policy, 0, contract->policy_size);
    for (int k = 0; k < 2; ++k) {
        in[k] = room(k ? contract->substep_in_size : contract->step_in_size);
        out[k] = room(k ? contract->substep_out_size : contract->step_out_size);
        was[k] = room(k ? contract->substep_out_size : contract->step_out_size);
    }
    before = room(contract->states_size);
    after = room(contract->states_size);
    contract->reset(policy);
    CHECK(!contract->decided(policy));
    for (; done < steps; ++done) {
        const int k = contract->substep != NULL && uniform() < 0.7;
        const size_t size = k ? contract->substep_out_size : contract->step_out_size;
        const ashore_port *const inputs = k ? contract->substep_inputs : contract->step_inputs;
        const ashore_port *const outputs = k ? contract->substep_outputs : contract->step_outputs;
        const size_t input_count = k ? contract->substep_input_count : contract->step_input_count;
        const size_t output_count = k ? contract->substep_output_count : contract->step_output_count;
        const int decided = contract->decided(policy);
        int finite = 1, fault = -1;
        size_t element = 0;
        ashore_status status;
        if (uniform() < 0.01) {
            contract->reset(policy);
            ++resets;
            CHECK(!contract->decided(policy));
            continue;
        }
        for (size_t i = 0; i < input_count; ++i) finite &= fill(&inputs[i], in[k]) || !inputs[i].finite;
        contract->get_states(policy, before);
        if (size != 0) memcpy(was[k], out[k], size);
        status = k ? contract->substep(policy, in[k], out[k]) : contract->step(policy, in[k], out[k]);
        contract->get_states(policy, after);
        if (k && !decided) {
            CHECK(status == ASHORE_NOT_DECIDED);
        } else {
            CHECK((status == ASHORE_BAD_INPUT) == !finite);
        }
        if (status == ASHORE_OK) {
            substeps += k;
            for (size_t i = 0; i < output_count; ++i) CHECK(!outputs[i].finite || all_finite(&outputs[i], out[k]));
            for (size_t i = 0; i < contract->state_count; ++i) {
                CHECK(!contract->states[i].finite || all_finite(&contract->states[i], after));
            }
            CHECK(contract->decided(policy));
            continue;
        }
        CHECK(memcmp(before, after, contract->states_size) == 0);
        CHECK(size == 0 || memcmp(was[k], out[k], size) == 0);
        CHECK(contract->decided(policy) == decided);
        if (status == ASHORE_NOT_DECIDED) continue;
        contract->fault(policy, &fault, &element);
        CHECK(fault >= 0);
        if (status == ASHORE_BAD_INPUT) {
            ++refused_inputs;
            CHECK((size_t)fault < input_count && element < inputs[fault].count);
            CHECK(inputs[fault].finite && !all_finite(&inputs[fault], in[k]));
        } else {
            ++refused_results;
            CHECK((size_t)fault < output_count + contract->state_count);
        }
        if (uniform() < 0.3) contract->set_states(policy, before, decided); /* which changes nothing */
    }
    printf("%ld calls, %ld substeps, %ld resets, %ld inputs and %ld results refused\n", done, substeps, resets,
           refused_inputs, refused_results);
    for (int k = 0; k < 2; ++k) free(in[k]), free(out[k]), free(was[k]);
    free(before), free(after), free(policy);
    return 0;
}
