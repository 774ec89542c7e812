/* What the programs here need of a board. */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>

void board_print(const char *text);
void board_exit(int code);
size_t board_stack_used(void); /* the most so far, in bytes */

#endif
