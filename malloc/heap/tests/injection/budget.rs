//! Instruction counts of fast paths, measured in this program and compared with a golden file.
//!
//! The functions of the scenes are run with a breakpoint at each of their instructions, one at a time. The breakpoints
//! that are reached are the instructions that the scene executes; they are counted by kind. Only an optimised build is
//! compared.
//!
//! `BLESS=1 cargo test --profile dist -p freehold-malloc --test injection budget` rewrites the file; review the
//! difference before it is committed.

use std::{env, fs};

use iced_x86::{FlowControl, InstructionInfoFactory, OpAccess};

use crate::cases::{Code, Setting};
use crate::probes::{Play, Scene, Sound};
use crate::whole;

/// Path of the golden file.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/injection/budget.golden");
/// First lines of the golden file.
const HEADER: &str = "\
# Instructions that the fast paths of sections execute on x86-64, each in a separate function, including its return. The
# last scenes are C's malloc and free in a heap's frontend, for a size that is known at run time.
# `section` counts the instructions from arming to the publishing store, including the store.
# To write this file: BLESS=1 cargo test --profile dist -p freehold-malloc --test injection budget
scene                   executed  section  branches  loads  stores
";

/// Instructions that a scene executes.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    executed: usize,
    section: usize,
    branches: usize,
    loads: usize,
    stores: usize,
}

/// Measures one scene, and formats its row of the table.
fn format_row(setting: &Setting, name: &str, play: &dyn Play) -> String {
    let code = Code::new(setting, play);
    let Counts { executed, section, branches, loads, stores } = Counts::new(&code.find_reached(setting, play), &code);
    format!("{name:<23} {executed:>8} {section:>8} {branches:>9} {loads:>6} {stores:>7}\n")
}

/// Measures all scenes, and compares the table with the golden file.
///
/// # Panics
/// If the table and the golden file differ.
pub(crate) fn check(setting: &Setting) {
    let mut table = HEADER.to_owned();
    for scene in Scene::ALL {
        scene.run::<Sound>(|play| table += &format_row(setting, &format!("{scene:?}"), play));
    }
    whole::frontends(setting, |name, play| table += &format_row(setting, name, play));
    if cfg!(debug_assertions) {
        println!("left out: the budget is that of an optimised build; this one has\n{table}");
    } else if env::var_os("BLESS").is_some() {
        fs::write(GOLDEN, table).expect("the golden file can be written");
    } else {
        let golden = fs::read_to_string(GOLDEN).expect("the golden file is there");
        assert!(golden == table, "{GOLDEN} contains\n{golden}\nbut this build has\n{table}");
    }
}

impl Counts {
    fn new(reached: &[usize], code: &Code) -> Counts {
        let mut counts = Counts { executed: reached.len(), ..Counts::default() };
        let mut facts = InstructionInfoFactory::new();
        for &address in reached {
            let instruction = crate::code::decode(address);
            counts.section += usize::from(code.is_in_a_section(address));
            counts.branches += usize::from(instruction.flow_control() == FlowControl::ConditionalBranch);
            if instruction.flow_control() == FlowControl::Next {
                let memory = facts.info(&instruction).used_memory();
                let accesses = memory.iter().map(|used| used.access());
                let loads = accesses.clone().any(|access| matches!(access, OpAccess::Read | OpAccess::ReadWrite));
                let stores = accesses.clone().any(|access| matches!(access, OpAccess::Write | OpAccess::ReadWrite));
                counts.loads += usize::from(loads);
                counts.stores += usize::from(stores);
            }
        }
        counts
    }
}
