//! Plans: what is swept, as data.
//!
//! A plan is a TOML file that says what is done (replays of recordings, runs of a simulation, hosts of a fleet), under
//! which policies, and along which axes. [`read`] turns its tables into what can be asked for, or into one sentence
//! with file, line and key. A plan of the simulation that it names is taken in when it is opened, so that what is
//! handed on ([`Plan::manifest`]) says everything: who has it, and the recordings, has all that decides a result.

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

/// What is swept.
#[derive(Debug)]
pub struct Plan {
    title: String,
    source: Text,
    simulated: Option<Text>,
    pub(crate) study: Study,
    digest: String,
}

/// A plan's text, and what it is called in complaints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    name: String,
    text: String,
}

/// A plan as it stands in the folder of its results, and as it is handed to whoever works on it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    /// [`FORMAT`].
    freehold_sweep: u32,
    /// Version and commit of the program.
    program: String,
    /// The plan's digest.
    plan: String,
    source: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    simulated: Option<Text>,
}

impl Plan {
    /// The plan in this file. A plan of the simulation is looked for beside it.
    ///
    /// # Errors
    /// When it cannot be read, or is wrong; one sentence with the line and the key.
    pub fn open(path: &Path) -> Result<Plan, Error> {
        let text = fs::read_to_string(path).map_err(|source| Error::Unreadable { path: path.to_path_buf(), source })?;
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Plan::read(Text { name, text }, |name| read::find_simulated(name, path.parent()))
    }

    /// The plan in `text`, called `name` in complaints. It may name no plan of the simulation but built-in ones.
    ///
    /// # Errors
    /// When it is wrong; one sentence with the line and the key.
    pub fn parse(name: &str, text: &str) -> Result<Plan, Error> {
        Plan::read(Text { name: name.to_owned(), text: text.to_owned() }, |name| read::find_simulated(name, None))
    }

    /// The plan that another process wrote down as [`Plan::manifest`].
    ///
    /// # Errors
    /// When that was another version of this program, or it is no plan.
    pub fn from_manifest(json: &str) -> Result<Plan, Error> {
        let manifest: Manifest = serde_json::from_str(json)
            .map_err(|error| Error::Input(format!("this is not the plan of a sweep ({error})")))?;
        if let Some(other) = manifest.other_program() {
            return Err(Error::Input(format!("the plan was made by {other}, and this is {}", this_program())));
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

    /// What the plan says of itself.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// What decides results, as a digest: plans that differ in comments or in the title have the same.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Whether it takes recordings.
    pub fn takes_recordings(&self) -> bool {
        matches!(self.study, Study::Replays(_))
    }

    /// All of the plan as JSON: what stands in the folder of its results, and goes to whoever works on it elsewhere.
    pub fn manifest(&self) -> String {
        let manifest = Manifest {
            freehold_sweep: FORMAT,
            program: this_program(),
            plan: self.digest.clone(),
            source: self.source.clone(),
            simulated: self.simulated.clone(),
        };
        serde_json::to_string_pretty(&manifest).expect("a plan is plain data") + "\n"
    }

    /// Why results under this manifest are not those of the plan, as words that follow the folder's name; nothing if
    /// they are.
    pub fn difference(&self, manifest: &str) -> Option<String> {
        let Ok(there) = serde_json::from_str::<Manifest>(manifest) else {
            return Some("holds something else than the results of a sweep".to_owned());
        };
        if let Some(other) = there.other_program() {
            return Some(format!("holds results of {other}, and this is {}", this_program()));
        }
        (there.plan != self.digest).then(|| format!("holds the results of another plan ({})", there.source.name))
    }
}

impl Manifest {
    /// The program that wrote it, if its results are not ours.
    fn other_program(&self) -> Option<String> {
        let is_ours = self.freehold_sweep == FORMAT && self.program == this_program();
        (!is_ours).then(|| format!("freehold {}", self.program))
    }
}

/// Version and commit of this program.
pub(crate) fn this_program() -> String {
    origin::version()
}
