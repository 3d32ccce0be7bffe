//! The formats of a report with a verdict, beside its text.

use clap::Args;
use freehold_measure::output::{self, JsonArgs, JsonTarget};
use freehold_measure::report::{self, csv, markdown, mmtests};
use freehold_measure::terminal::Style;

use crate::error::Error;

/// Where each format goes.
#[derive(Clone, Debug, Default, Args)]
pub struct Formats {
    #[command(flatten)]
    json: JsonArgs,

    /// Write the measures as CSV to FILE as well; `-` prints CSV instead of text
    #[arg(long, value_name = "FILE|-")]
    csv: Option<JsonTarget>,

    /// Write everything as Markdown to FILE as well; `-` prints Markdown instead of text
    #[arg(long, value_name = "FILE|-")]
    markdown: Option<JsonTarget>,

    /// Write the table that kernel developers paste (mmtests) to FILE as well; `-` prints it instead of text
    #[arg(long, value_name = "FILE|-")]
    mmtests: Option<JsonTarget>,
}

impl Formats {
    /// Whether every file can be written: before the work, because afterwards is late to hear that it cannot be.
    ///
    /// # Errors
    /// When one cannot be, or two formats want stdout.
    pub fn try_all(&self) -> Result<(), Error> {
        let targets: Vec<&JsonTarget> = self.targets().collect();
        if (1..targets.len()).any(|at| targets[..at].contains(&targets[at])) {
            return Err(Error::Input("two formats cannot go to one place; give each its own".to_owned()));
        }
        for target in self.targets() {
            if let JsonTarget::File(path) = target {
                output::try_file(path)?;
            }
        }
        Ok(())
    }

    fn targets(&self) -> impl Iterator<Item = &JsonTarget> {
        [&self.json.json, &self.csv, &self.markdown, &self.mmtests].into_iter().flatten()
    }
}

/// Makes the bytes of all reports.
type Render<'r> = dyn Fn() -> Vec<u8> + 'r;

/// Sends a report where the user wants it, files first.
///
/// # Errors
/// When stdout or a file cannot be written.
pub fn emit(
    document: &impl output::Report,
    reports: &[report::Report],
    formats: &Formats,
    style: Style,
) -> Result<(), Error> {
    let joined =
        |render: fn(&report::Report) -> String| reports.iter().map(render).collect::<Vec<_>>().join("\n").into_bytes();
    let csv = || csv::text(reports).expect("memory takes what is written to it");
    let renderings: [(&Option<JsonTarget>, &Render<'_>); 3] = [
        (&formats.csv, &csv),
        (&formats.markdown, &|| joined(markdown::text)),
        (&formats.mmtests, &|| joined(mmtests::text)),
    ];
    for (target, render) in &renderings {
        if let Some(JsonTarget::File(path)) = target {
            output::write_atomically(path, &render())?;
        }
    }
    let to_stdout = renderings.iter().find(|(target, _)| **target == Some(JsonTarget::Stdout));
    match to_stdout {
        Some((_, render)) => {
            output::write_json(document, &formats.json)?;
            Ok(output::print(&render())?)
        }
        None => Ok(output::emit(document, &formats.json, style)?),
    }
}
