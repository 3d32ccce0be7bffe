//! The guest: a kernel, a machine and a workload.

use std::path::PathBuf;
use std::time::Duration;

use crate::kernel::Kernel;
use crate::setting::Setting;
use crate::size::Mebibytes;
use crate::workload::Workload;

/// What is booted, and what runs in it.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The kernel.
    pub kernel: Kernel,
    /// Number of CPUs.
    pub cpus: u16,
    /// Memory.
    pub memory: Mebibytes,
    /// The script that is recorded.
    pub workload: Workload,
    /// A folder that the workload has as its root.
    pub root: Option<PathBuf>,
    /// Settings, made before the workload prepares and again before it runs.
    pub settings: Vec<Setting>,
    /// More of the kernel's command line.
    pub append: String,
    /// Options for the recorder in the guest.
    pub record: Vec<String>,
    /// Time after which the recording is ended, from the start of the boot.
    pub timeout: Duration,
}

impl Guest {
    /// Describes the guest in a line.
    pub fn describe(&self) -> String {
        let cpus = if self.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", self.cpus) };
        let settings = self.settings.iter().map(|setting| format!(", {setting}")).collect::<String>();
        let append = if self.append.is_empty() { String::new() } else { format!(", booted with {}", self.append) };
        let record = if self.record.is_empty() { String::new() } else { format!(", record {}", self.record.join(" ")) };
        let (release, workload) = (&self.kernel.release, &self.workload.name);
        format!("Linux {release}, {cpus}, {}, workload {workload}{settings}{append}{record}", self.memory)
    }
}
