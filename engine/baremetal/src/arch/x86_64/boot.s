/* From the loader's protected mode, or a started CPU's real mode, to Rust in long mode.
 *
 * All of physical memory below 4 GiB is mapped where it is, in pages of 2 MiB, before any CPU needs it.
 */

    .section .note.pvh, "a"
    .balign 4
    .long 4, 8, 18              /* XEN_ELFNOTE_PHYS32_ENTRY */
    .asciz "Xen"
    .quad start32

    .section .text.boot, "ax"
    .code32
    .global start32
start32:
    cli
    cld
    movl $pd, %edi
    movl $0x83, %eax            /* present, writable, large */
    movl $2048, %ecx
1:  movl %eax, (%edi)
    movl $0, 4(%edi)
    addl $0x200000, %eax
    addl $8, %edi
    decl %ecx
    jnz 1b
    movl $start64, %edx
    jmp long_mode

/* To the code at %edx; %ebx stays. */
long_mode:
    movl %cr4, %eax
    orl $0x20, %eax             /* PAE */
    movl %eax, %cr4
    movl $pml4, %eax
    movl %eax, %cr3
    movl %edx, %edi
    movl $0xc0000080, %ecx      /* EFER */
    rdmsr
    orl $0x100, %eax            /* LME */
    wrmsr
    movl %cr0, %eax
    orl $0x80000001, %eax
    movl %eax, %cr0
    lgdtl gdt_pointer
    ljmp $0x08, $far64

    .code64
far64:
    movw $0x10, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movl %edi, %edi
    jmp *%rdi

start64:
    leaq stacks + STACK_BYTES(%rip), %rsp
    movl %ebx, %edi
    call start
    ud2

/* Each further CPU has a number by the order in which it comes here, and the stack of that number. */
ap64:
    movl $1, %edi
    lock xaddl %edi, next_cpu(%rip)
    movl %edi, %eax
    incl %eax
    imull $STACK_BYTES, %eax
    leaq stacks(%rip), %rsp
    addq %rax, %rsp
    call start_cpu
    ud2

    .code32
ap32:
    movw $0x10, %ax
    movw %ax, %ds
    movl $ap64, %edx
    jmp long_mode

/* Copied to TRAMPOLINE, where a CPU starts. */
    .code16
    .global trampoline_start, trampoline_end
trampoline_start:
    cli
    xorw %ax, %ax
    movw %ax, %ds
    lgdtl TRAMPOLINE + (trampoline_gdt - trampoline_start)
    movl %cr0, %eax
    orl $1, %eax
    movl %eax, %cr0
    ljmpl $0x18, $ap32
    .balign 4
trampoline_gdt:
    .word gdt_end - gdt - 1
    .long gdt
trampoline_end:
    .code64

/* What every interrupt has saved before Rust is called: what a call may overwrite. */
    .macro interrupt name, handler
    .global \name
\name:
    pushq %rax
    pushq %rcx
    pushq %rdx
    pushq %rsi
    pushq %rdi
    pushq %r8
    pushq %r9
    pushq %r10
    pushq %r11
    movq 72(%rsp), %rdi         /* where it came, and the flags there */
    movq 88(%rsp), %rsi
    cld
    call \handler
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rdi
    popq %rsi
    popq %rdx
    popq %rcx
    popq %rax
    iretq
    .endm

    interrupt trap_entry, trap_interrupt
    interrupt timer_entry, timer_interrupt
    interrupt call_entry, call_interrupt
    interrupt spurious_entry, spurious_interrupt

/* Exceptions end the kernel: 16 bytes each, the vector by the place. */
    .balign 16
    .global exceptions
exceptions:
    .set vector, 0
    .rept 32
    .balign 16
    pushq $vector
    jmp exception_entry
    .set vector, vector + 1
    .endr
exception_entry:
    popq %rdi
    movq (%rsp), %rsi
    movq 8(%rsp), %rdx
    andq $-16, %rsp
    call exception
    ud2

    .section .data.boot, "aw"
    .balign 8
gdt:
    .quad 0
    .quad 0x00af9a000000ffff    /* 0x08: code, 64 bits */
    .quad 0x00cf92000000ffff    /* 0x10: data */
    .quad 0x00cf9a000000ffff    /* 0x18: code, 32 bits */
gdt_end:
gdt_pointer:
    .word gdt_end - gdt - 1
    .long gdt
    .balign 4
next_cpu:
    .long 1
    .balign 4096
pml4:
    .quad pdpt + 3
    .fill 511, 8, 0
pdpt:
    .quad pd + 3, pd + 0x1003, pd + 0x2003, pd + 0x3003
    .fill 508, 8, 0

    .section .bss.boot, "aw", @nobits
    .balign 4096
pd:
    .skip 4 * 4096
    .balign 16
stacks:
    .skip CPUS_MAX * STACK_BYTES
