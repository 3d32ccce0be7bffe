//! The guest: a kernel, a machine and a workload.

use std::path::PathBuf;
use std::time::Duration;

use crate::kernel::Kernel;
use crate::setting::Setting;
use crate::size::Mebibytes;
use crate::workload::Workload;

/// Kernel to boot, its machine, and the workload that runs in it.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Kernel to boot.
    pub kernel: Kernel,
    /// Number of CPUs.
    pub cpus: u16,
    /// Size of memory.
    pub memory: Mebibytes,
    /// Script that is recorded.
    pub workload: Workload,
    /// Folder that becomes the root of the workload.
    pub root: Option<PathBuf>,
    /// Settings, made before the workload prepares and again before it runs.
    pub settings: Vec<Setting>,
    /// Additional words for the kernel's command line.
    pub append: String,
    /// Options for the recorder in the guest.
    pub record: Vec<String>,
    /// Time from the start of the boot after which the recording is ended.
    pub timeout: Duration,
}

impl Guest {
    /// Describes the guest in one line.
    pub fn describe(&self) -> String {
        let cpus = if self.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", self.cpus) };
        let settings = self.settings.iter().map(|setting| format!(", {setting}")).collect::<String>();
        let append = if self.append.is_empty() { String::new() } else { format!(", command line {}", self.append) };
        let record = if self.record.is_empty() { String::new() } else { format!(", record {}", self.record.join(" ")) };
        let (release, workload) = (&self.kernel.release, &self.workload.name);
        format!("Linux {release}, {cpus}, {}, workload {workload}{settings}{append}{record}", self.memory)
    }
}
