/* ashore.h: what every compiled policy package has in common.
 *
 * A package is compiled to policy.h and policy.c; this file is the same for all of them. It holds the types of the
 * contract: what a policy takes and gives, at which rates, for which joints. Programs that know their policy use the
 * structs and constants of its policy.h; programs that take any policy go by the tables of its ashore_contract.
 */
#ifndef ASHORE_H
#define ASHORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes whenever a type below does. */
#define ASHORE_ABI_VERSION 1
#define ASHORE_MAX_RANK 8

/* What a call came to. Whatever it is but ASHORE_OK, the states and the outputs are what they were before the call. */
typedef enum {
    ASHORE_OK = 0,
    ASHORE_BAD_INPUT = 1,  /* an input is NaN or infinite; fault_port and fault_element say which */
    ASHORE_BAD_RESULT = 2, /* an output or a next state came out NaN or infinite; likewise */
    ASHORE_NOT_DECIDED = 3, /* substep was called before the first step after a reset */
    ASHORE_BAD_INDEX = 4    /* the policy computed an index into a table that is outside of it */
} ashore_status;

typedef enum {
    ASHORE_BOOL = 0, /* a byte, 0 or 1 */
    ASHORE_INT8 = 1,
    ASHORE_INT16 = 2,
    ASHORE_INT32 = 3,
    ASHORE_INT64 = 4,
    ASHORE_UINT8 = 5,
    ASHORE_UINT16 = 6,
    ASHORE_UINT32 = 7,
    ASHORE_UINT64 = 8,
    ASHORE_FLOAT32 = 9,
    ASHORE_FLOAT64 = 10
} ashore_dtype;

/* One array: an input, an output or a state. Arrays are row-major. What the package does not say is NULL. */
typedef struct {
    const char *name;
    const char *kind;         /* what it means, such as "state/joint/position" */
    const char *unit;         /* of all elements */
    const char *frame;        /* such as "base" */
    const char *source;       /* of an input: "sensor", "estimator", "command", "reference" or "privileged" */
    const char *connection;   /* where a deployment environment finds or writes it */
    const char *description;
    const char *role;         /* of a state: "recurrent", "history", "last_action", "filter", "counter" or "memory" */
    ashore_dtype dtype;
    int finite;               /* 1: NaN and infinities are refused; 0: the data uses them */
    int keep;                 /* of a state: 1 if it lives on over a reset */
    int rank;
    size_t shape[ASHORE_MAX_RANK];
    size_t count;             /* elements */
    size_t bytes;
    size_t offset;            /* in the struct that it is a field of, in bytes */
    const char *const *names; /* of the elements of the last axis */
    const char *const *units; /* of the elements of the last axis, where they differ */
    const double *lower;      /* limits of the elements of the last axis; -INFINITY where there is none */
    const double *upper;      /* likewise; INFINITY where there is none */
} ashore_port;

/* One joint, in radians and newton metres (revolute) or metres and newtons (prismatic). What is unsaid is NAN. */
typedef struct {
    const char *name;
    const char *type; /* "revolute" or "prismatic" */
    double default_position;
    double kp;
    double kd;
    double effort_limit;
    double velocity_limit;
    double lower; /* of the position */
    double upper;
} ashore_joint;

/* A policy as tables and functions. The structs that the pointers to void point to are those of its policy.h. */
typedef struct {
    uint32_t abi_version; /* ASHORE_ABI_VERSION */
    const char *name;
    const char *version; /* NULL where unsaid */
    const char *digest;  /* sha256 of the package's manifest, which has those of all its files */
    size_t batch;        /* rows that are served at once */
    double policy_dt_s;  /* time between two steps; NAN where unsaid */
    double physics_dt_s; /* time between two substeps; NAN where unsaid */
    int decimation;      /* substeps per step */

    const ashore_port *step_inputs;
    size_t step_input_count;
    const ashore_port *step_outputs;
    size_t step_output_count;
    const ashore_port *substep_inputs;
    size_t substep_input_count;
    const ashore_port *substep_outputs;
    size_t substep_output_count;
    const ashore_port *states;
    size_t state_count;
    const ashore_joint *joints;
    size_t joint_count;

    size_t policy_size; /* sizeof and alignment of the structs */
    size_t policy_alignment;
    size_t step_in_size;
    size_t step_out_size;
    size_t substep_in_size;
    size_t substep_out_size;
    size_t states_size;

    /* Start an episode. The first time, the memory must be all zeros; that makes it a policy. */
    void (*reset)(void *policy);
    ashore_status (*step)(void *policy, const void *in, void *out);
    ashore_status (*substep)(void *policy, const void *in, void *out); /* NULL if the package has no substeps */
    void (*get_states)(const void *policy, void *states);
    void (*set_states)(void *policy, const void *states, int decided);
    int (*decided)(const void *policy);
    /* 1: do not look for NaN and infinities from now on; 0: look. */
    void (*set_unchecked)(void *policy, int unchecked);
    /* What the last ASHORE_BAD_INPUT or ASHORE_BAD_RESULT was about. For a bad input, the port is an index into the
     * inputs of that call. For a bad result it is an index into the outputs of that call, or, from their count on, one
     * into the states. The element is an index into the array, row-major. */
    void (*fault)(const void *policy, int *port, size_t *element);
} ashore_contract;

#ifdef __cplusplus
}
#endif

#endif
