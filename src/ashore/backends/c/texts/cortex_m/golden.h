/* The golden rollout of the package, or the beginning of it, as golden.c has it. */
#ifndef GOLDEN_H
#define GOLDEN_H

extern const char golden_digest[];          /* of the package that it is of */
extern const unsigned long golden_ticks;
extern const unsigned char golden_calls[];  /* per tick: 1 is a substep, 2 is a reset before it */
extern const unsigned char golden_values[]; /* per tick: inputs, outputs, states, as the contract lists them */
extern const unsigned long golden_size;     /* of golden_values */
extern const double golden_atol, golden_rtol;

#endif
