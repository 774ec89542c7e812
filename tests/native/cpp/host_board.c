/* A board that is this machine, so that the replay for microcontrollers runs here. */
#include <stdio.h>
#include <stdlib.h>

#include "board.h"

void board_print(const char *text) { fputs(text, stdout); }
void board_exit(int code) { exit(code); }
size_t board_stack_used(void) { return 0; }
