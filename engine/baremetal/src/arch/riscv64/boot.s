/* Every CPU starts here, in machine mode, with its number in a0 and the device tree in a1; the first goes on, the others wait
 * until it lets them. Memory is where it is: there is no translation in machine mode.
 */

    .section .text.boot, "ax"
    .global start
start:
    csrw mie, zero
    la t0, trap_entry
    csrw mtvec, t0
    li t0, STACK_BYTES
    addi t1, a0, 1
    mul t0, t0, t1
    la sp, stacks
    add sp, sp, t0
    bnez a0, 1f
    mv a0, a1
    call start_first
1:  la t0, may_start
2:  lw t1, 0(t0)
    beqz t1, 2b
    fence r, rw
    call start_further

    .balign 4
trap_entry:
    addi sp, sp, -128
    sd ra, 0(sp)
    sd t0, 8(sp)
    sd t1, 16(sp)
    sd t2, 24(sp)
    sd t3, 32(sp)
    sd t4, 40(sp)
    sd t5, 48(sp)
    sd t6, 56(sp)
    sd a0, 64(sp)
    sd a1, 72(sp)
    sd a2, 80(sp)
    sd a3, 88(sp)
    sd a4, 96(sp)
    sd a5, 104(sp)
    sd a6, 112(sp)
    sd a7, 120(sp)
    csrr a0, mcause
    csrr a1, mepc
    csrr a2, mtval
    call trap
    ld ra, 0(sp)
    ld t0, 8(sp)
    ld t1, 16(sp)
    ld t2, 24(sp)
    ld t3, 32(sp)
    ld t4, 40(sp)
    ld t5, 48(sp)
    ld t6, 56(sp)
    ld a0, 64(sp)
    ld a1, 72(sp)
    ld a2, 80(sp)
    ld a3, 88(sp)
    ld a4, 96(sp)
    ld a5, 104(sp)
    ld a6, 112(sp)
    ld a7, 120(sp)
    addi sp, sp, 128
    mret

    .section .data.boot, "aw"
    .balign 4
    .global may_start
may_start:
    .word 0

    .section .bss.boot, "aw", @nobits
    .balign 16
stacks:
    .skip CPUS_MAX * STACK_BYTES
