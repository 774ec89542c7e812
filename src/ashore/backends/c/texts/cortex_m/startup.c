/* What runs before main() on a Cortex-M with a floating-point unit: vectors, memory, the unit itself. Text goes out by
 * semihosting, which emulators and debuggers understand. Replace it by your board's own. */
#include <stddef.h>
#include <stdint.h>

#include "board.h"

extern uint32_t data_begin[], data_end[], data_load[], bss_begin[], bss_end[], stack_begin[], stack_end[];
extern int main(void);

void on_reset(void);
static void on_fault(void);

/* Every exception but the reset is a fault here. */
__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))stack_end, on_reset, on_fault, on_fault, on_fault, on_fault, on_fault, 0, 0, 0, 0,
    on_fault, on_fault, 0, on_fault, on_fault};

static int semihosting(int operation, const void *argument) {
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void board_print(const char *text) { semihosting(0x04, text); }

void board_exit(int code) {
    const uint32_t block[2] = {0x20026, (uint32_t)code};
    semihosting(0x20, block);
    for (;;) {
    }
}

static void on_fault(void) {
    board_print("fault\n");
    board_exit(3);
}

#define UNTOUCHED 0xA5A5A5A5u

size_t board_stack_used(void) {
    const uint32_t *at = stack_begin;
    while (at < stack_end && *at == UNTOUCHED) ++at;
    return (size_t)((const char *)stack_end - (const char *)at);
}

void on_reset(void) {
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* CPACR: the floating-point unit may be used */
    __asm__ volatile("dsb\n isb");
    for (uint32_t *to = data_begin, *from = data_load; to < data_end; ++to, ++from) *to = *from;
    for (uint32_t *to = bss_begin; to < bss_end; ++to) *to = 0;
    uint32_t *here;
    __asm__ volatile("mov %0, sp" : "=r"(here));
    for (uint32_t *to = stack_begin; to < here - 16; ++to) *to = UNTOUCHED;
    board_exit(main());
}
