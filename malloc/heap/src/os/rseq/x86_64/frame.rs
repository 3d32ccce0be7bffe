//! Frame of a section: its descriptor, arming, restart, and optionally a planted defect.
//!
//! ```text
//! 30   arm: store the descriptor           <- 60: ud1 with the signature, jmp 30 (in another section of the
//! 40   start of the section: read the CPU         binary, so that straight-line code falls through)
//!      ...
//! 49   last instruction of the section: the store that is visible to other code
//! 50   first address after the section
//! ```

/// Expands to one line of a section. A planted defect moves or changes some of the lines.
macro_rules! line {
    // The CPU is read inside the section. The defect `stale_cpu` reads it before the section is armed.
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
    // The descriptor is stored. The defect `missing` omits the store.
    (arm missing) => {
        "/* fs:[{area} + {descriptor}] */"
    };
    (arm $defect:ident) => {
        "mov qword ptr fs:[{area} + {descriptor}], {value}"
    };
    // The section ends after its last instruction. The defects end it before that instruction, or one instruction too
    // late.
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
    // An interrupted section is armed again. The defect `unarmed_retry` skips that.
    (retry unarmed_retry) => {
        "jmp 40b"
    };
    (retry $defect:ident) => {
        "jmp 30b"
    };
}

/// Expands to a section: `cpu` loads the offset of this CPU's slots into `{at}`, `body` does the work, and `commit`
/// publishes the result. `{value}` is overwritten before `body`.
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

/// Loads the address of this CPU's words into `{at}`.
macro_rules! words_of_cpu {
    () => {
        "mov {at:e}, dword ptr fs:[{area} + {cpu_offset}]
        shl {at}, {shift}
        add {at}, {all}"
    };
}

/// Loads the offset of this CPU's slots into `{at}`.
macro_rules! slots_of_cpu {
    () => {
        "mov {at:e}, dword ptr fs:[{area} + {cpu_offset}]
        shl {at}, {shift}"
    };
}
