//! The frame of a section: its descriptor, how it is armed, how it is restarted; and a defect in it, if one is planted.
//!
//! ```text
//! 30   arm: store the descriptor           <- 60: ud1 with the signature, jmp 30 (in another place, so that
//! 40   the section begins: read the CPU          what runs falls through)
//!      ...
//! 49   its last instruction: the store that others see
//! 50   it is over
//! ```

/// A line that stands in one place for what is sound, and in another for a planted defect.
macro_rules! line {
    // The CPU is read within the section; a defect reads it before it arms.
    (early stale_cpu $line:expr) => {
        $line
    };
    (early $defect:ident $line:expr) => {
        ""
    };
    (first stale_cpu $line:expr) => {
        ""
    };
    (first $defect:ident $line:expr) => {
        $line
    };
    // The descriptor is stored; a defect leaves that out.
    (arm missing) => {
        "/* fs:[{area} + {descriptor}] */"
    };
    (arm $defect:ident) => {
        "mov qword ptr fs:[{area} + {descriptor}], {value}"
    };
    // The section ends after its last instruction; defects end it before, or one too late.
    (end short_end) => {
        ".quad 40b, 49b - 40b, 60f"
    };
    (end late_end) => {
        ".quad 40b, 51b - 40b, 60f"
    };
    (end $defect:ident) => {
        ".quad 40b, 50b - 40b, 60f"
    };
    (late late_end) => {
        ".byte 0x66, 0x90"
    };
    (late $defect:ident) => {
        ""
    };
    // A section that was interrupted arms again; a defect does not.
    (retry unarmed_retry) => {
        "jmp 40b"
    };
    (retry $defect:ident) => {
        "jmp 30b"
    };
}

/// A section: `cpu` leaves the offset of this CPU's slots in `{at}`, `body` does the work, `commit` publishes it.
/// `{value}` is overwritten before.
macro_rules! section {
    ($defect:ident, cpu $cpu:expr, body $body:expr, commit $commit:expr, after $after:expr, $($operand:tt)*) => {
        asm!(
            "30:",
            line!(early $defect $cpu),
            "lea {value}, [rip + 20f]",
            line!(arm $defect),
            "40:",
            line!(first $defect $cpu),
            $body,
            "49:",
            $commit,
            "50:",
            line!(late $defect),
            "51:",
            $after,
            ".pushsection __rseq_cs, \"aw\", @progbits",
            ".balign 32",
            "20:",
            ".long 0, 0",
            line!(end $defect),
            ".popsection",
            ".pushsection .text.rseq_restart, \"ax\", @progbits",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "60:",
            line!(retry $defect),
            ".popsection",
            descriptor = const DESCRIPTOR_OFFSET,
            cpu_offset = const CPU_OFFSET,
            $($operand)*
            options(nostack),
        )
    };
}

/// Leaves the address of this CPU's words in `{at}`.
macro_rules! words_of_cpu {
    () => {
        "mov {at:e}, dword ptr fs:[{area} + {cpu_offset}]
        shl {at}, {shift}
        add {at}, {all}"
    };
}

/// Leaves the offset of this CPU's slots in `{at}`.
macro_rules! slots_of_cpu {
    () => {
        "mov {at:e}, dword ptr fs:[{area} + {cpu_offset}]
        shl {at}, {shift}"
    };
}
