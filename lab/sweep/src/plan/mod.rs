//! Plans of sweeps.
//!
//! A plan is a TOML file that sets the kind of work (replays of recordings, runs of a simulation, hosts of a fleet),
//! the policies, and the axes. [`read`] converts its tables to a study, or returns a one-sentence error with file, line
//! and key. If the plan names a plan of the simulation, that plan is read when the sweep's plan is opened. The manifest
//! ([`Plan::manifest`]) therefore contains everything that affects the results, apart from the recordings.

mod axes;
mod model;
mod read;

use std::fs;
use std::path::Path;

use freehold_report::origin;
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::error::Error;

pub(crate) use model::{RECORDED, Replays, SimulatedPoint, Simulation, Simulations, Study, cpus_label, setting_label};

/// Version of the dataset's format.
const FORMAT: u32 = 1;

/// Plan of a sweep.
#[derive(Debug)]
pub struct Plan {
    title: String,
    source: Text,
    simulated: Option<Text>,
    pub(crate) study: Study,
    digest: String,
}

/// Text of a plan, and its name in error messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    name: String,
    text: String,
}

/// A plan as JSON: in the folder of its results, and as it is sent to workers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    /// Version of the format: [`FORMAT`].
    freehold_sweep: u32,
    /// Version and commit of the program.
    program: String,
    /// Digest of the plan.
    plan: String,
    source: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    simulated: Option<Text>,
}

impl Plan {
    /// Reads the plan in this file. A plan of the simulation that it names is a built-in one, or else a file in the
    /// same folder.
    ///
    /// # Errors
    /// If the plan cannot be read or is invalid. The error is one sentence with the line and the key.
    pub fn open(path: &Path) -> Result<Plan, Error> {
        let text = fs::read_to_string(path).map_err(|source| Error::Unreadable { path: path.to_path_buf(), source })?;
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Plan::read(Text { name, text }, |name| read::find_simulated(name, path.parent()))
    }

    /// Parses the plan in `text`, called `name` in error messages. Such a plan can name only built-in plans of the
    /// simulation.
    ///
    /// # Errors
    /// If the plan is invalid. The error is one sentence with the line and the key.
    pub fn parse(name: &str, text: &str) -> Result<Plan, Error> {
        Plan::read(Text { name: name.to_owned(), text: text.to_owned() }, |name| read::find_simulated(name, None))
    }

    /// Parses the result of [`Plan::manifest`], which may come from another process.
    ///
    /// # Errors
    /// If the manifest was written by another version of this program, or if it is not a plan.
    pub fn from_manifest(json: &str) -> Result<Plan, Error> {
        let manifest: Manifest = serde_json::from_str(json).map_err(|error| {
            Error::Input(format!("not the plan of a sweep ({error}); give the manifest of a sweep"))
        })?;
        if let Some(other) = manifest.other_program() {
            return Err(Error::Input(format!(
                "the plan is from {other}, but this program is {}; use one version",
                this_program()
            )));
        }
        let Manifest { source, simulated, .. } = manifest;
        Plan::read(source, |_| Ok(simulated.map(|Text { name, text }| (name, text)).unwrap_or_default()))
    }

    fn read(source: Text, find: impl FnOnce(&str) -> Result<(String, String), Error>) -> Result<Plan, Error> {
        let parsed = read::read_plan(&source.name, &source.text, find)?;
        let digest = digest::hash_bytes(parsed.meaning);
        let simulated = parsed.simulated.map(|(name, text)| Text { name, text });
        Ok(Plan { title: parsed.title, source, simulated, study: parsed.study, digest })
    }

    /// Returns the title of the plan.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns a digest of everything in the plan that affects the results. Plans that differ only in comments or in
    /// the title have the same digest.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns whether the plan replays recordings.
    pub fn takes_recordings(&self) -> bool {
        matches!(self.study, Study::Replays(_))
    }

    /// Returns the complete plan as JSON, which is stored in the folder of its results and sent to workers.
    pub fn manifest(&self) -> String {
        let manifest = Manifest {
            freehold_sweep: FORMAT,
            program: this_program(),
            plan: self.digest.clone(),
            source: self.source.clone(),
            simulated: self.simulated.clone(),
        };
        serde_json::to_string_pretty(&manifest).expect("a plan serializes to JSON") + "\n"
    }

    /// Returns the reason why results under this manifest do not belong to the plan, as words that follow the name of
    /// the folder; `None` if they do.
    pub fn difference(&self, manifest: &str) -> Option<String> {
        let Ok(there) = serde_json::from_str::<Manifest>(manifest) else {
            return Some("contains files that are not results of a sweep".to_owned());
        };
        if let Some(other) = there.other_program() {
            return Some(format!("contains results of {other}, but this program is {}", this_program()));
        }
        (there.plan != self.digest).then(|| format!("contains the results of another plan ({})", there.source.name))
    }
}

impl Manifest {
    /// Returns the program that wrote the manifest, if its results are not compatible with this program.
    fn other_program(&self) -> Option<String> {
        let is_ours = self.freehold_sweep == FORMAT && self.program == this_program();
        (!is_ours).then(|| format!("freehold {}", self.program))
    }
}

/// Returns the version and the commit of this program.
pub(crate) fn this_program() -> String {
    origin::version()
}
