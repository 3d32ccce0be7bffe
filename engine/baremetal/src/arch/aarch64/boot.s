/* Every CPU comes here, at exception level 1 and without translation, and leaves with memory mapped where it is, and
 * once more from DIRECT_MAP on: the first GiB, which has the devices, as such; the others cached.
 */

    .section .text.boot, "ax"
    .global start
start:
    mrs x0, mpidr_el1
    and x0, x0, #0xff
    ldr x1, =stacks
    ldr x2, =STACK_BYTES
    add x3, x0, #1
    madd x1, x2, x3, x1
    mov sp, x1
    ldr x1, =vectors
    msr vbar_el1, x1
    ldr x1, =0xff00             /* kinds of memory: 0 devices, 1 cached */
    msr mair_el1, x1
    ldr x1, =0x2b5103519        /* addresses of 39 bits, above of 48, in pages of 4 KiB, tables cached and shared */
    msr tcr_el1, x1
    ldr x1, =table
    msr ttbr0_el1, x1
    ldr x1, =upper_table
    msr ttbr1_el1, x1
    dsb sy
    isb
    mrs x1, sctlr_el1
    ldr x2, =0x1005             /* translation, caches for data and instructions */
    orr x1, x1, x2
    msr sctlr_el1, x1
    isb
    cbnz x0, 1f
    bl start_first
1:  bl start_further

/* Interrupts have a place, and all else ends the kernel. */
    .balign 2048
vectors:
    .rept 5
    b exception_entry
    .balign 128
    .endr
    b irq_entry
    .balign 128
    .rept 10
    b exception_entry
    .balign 128
    .endr

irq_entry:
    sub sp, sp, #160
    stp x0, x1, [sp]
    stp x2, x3, [sp, #16]
    stp x4, x5, [sp, #32]
    stp x6, x7, [sp, #48]
    stp x8, x9, [sp, #64]
    stp x10, x11, [sp, #80]
    stp x12, x13, [sp, #96]
    stp x14, x15, [sp, #112]
    stp x16, x17, [sp, #128]
    stp x18, x30, [sp, #144]
    mrs x0, elr_el1
    bl interrupt
    ldp x0, x1, [sp]
    ldp x2, x3, [sp, #16]
    ldp x4, x5, [sp, #32]
    ldp x6, x7, [sp, #48]
    ldp x8, x9, [sp, #64]
    ldp x10, x11, [sp, #80]
    ldp x12, x13, [sp, #96]
    ldp x14, x15, [sp, #112]
    ldp x16, x17, [sp, #128]
    ldp x18, x30, [sp, #144]
    add sp, sp, #160
    eret

exception_entry:
    mrs x0, esr_el1
    mrs x1, elr_el1
    mrs x2, far_el1
    bl exception
    b .

    .section .data.boot, "aw"
    .balign 4096
table:
    .quad 0x0020000000000401, 0x40000705, 0x80000705, 0xc0000705
    .fill 508, 8, 0
upper_table:
    .quad table + 3
    .fill 511, 8, 0

    .section .bss.boot, "aw", @nobits
    .balign 16
stacks:
    .skip CPUS_MAX * STACK_BYTES
