/* The smallest program around a policy: all its memory is static, and nothing is allocated. Fill in the two comments
 * and call the loop from a timer. `ashore compile` measures flash and RAM with it. */
#include "board.h"
#include "policy.h"

static @POLICY@ policy;
static @POLICY@_step_in step_in;
static @POLICY@_step_out step_out;
@DECLARE_SUBSTEP@
int main(void) {
    @POLICY@_reset(&policy);
    for (;;) {
        /* every policy_dt_s: fill step_in from the sensors */
        if (@POLICY@_step(&policy, &step_in, &step_out) != ASHORE_OK) return 1; /* damp the drives */
        /* send step_out to the drives */
@CALL_SUBSTEP@    }
}
