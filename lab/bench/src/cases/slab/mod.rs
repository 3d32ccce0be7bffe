//! `slab`: the cost of allocating and freeing an object under the slab's rival policies, above the minimum that it
//! could be, and in other projects' mallocs. The unit is ticks of the time stamp counter; the loops are those of
//! Lameter's table of 2014.
//!
//! ```text
//! rival      the slab as a contestant                 published   the author's figures
//! rivals     contestants: policies and primitives     bare        contestants: bare per-CPU sections
//! lists      the author's table, arrays against lists, hardening
//! sections   primitives that make CPU-local updates exclusive, and their cost
//! mallocs    all mallocs, and the bars for Freehold's
//! findings   tables and duels, with a summary
//! ```
//!
//! There are three contests: between policies and primitives of the slab, and between bare sections, both in this
//! process; and between mallocs, each in a process of its own.

mod bare;
mod findings;
mod lists;
mod mallocs;
mod published;
mod rival;
mod rivals;
mod sections;

use bare::Bare;
use findings::Findings;
use freehold::Policy;
use freehold_malloc::os::rseq::Rseq;
use freehold_object_loops::{Size, Work, clock};
use freehold_policies::{BEST, NamedPolicy};
use rivals::SlabRival;

use crate::bench::{Bench, Epilogue, Plan, Request};
use crate::contest::{self, Contest, Contestant, Event};
use crate::error::Error;
use crate::mallocs::{Cpus, MALLOCS, MIMALLOC_2, Malloc, Player};
use crate::report::{ComparisonRow, Note};
use crate::settings::{Method, Settings};
use crate::subject::{Case, Effort};

pub(crate) const BENCH: Bench = Bench {
    name: "slab",
    asks: "What does an object cost with one-word and two-word lists, sheaves and bitmaps, and in other mallocs?",
    a: "freehold,slab=page-field",
    b: BEST,
    unit: "ticks",
    method: Method::Contest,
    beside: Some(MALLOCS),
    cases: || CASES.iter().collect(),
    make_plan: plan,
    epilogue,
};

/// Objects per round, as in the author's table.
const OBJECTS: usize = 10_000;

const FILL: Case = Case {
    name: "fill",
    about: "allocate 10000 objects; free them in the order of allocation",
    operation: "an object, for both apart",
    operations: OBJECTS as u64,
    pairs: 3,
};

static CASES: [Case; 4] = [
    FILL,
    Case { name: "fill-touched", about: "the same, with a byte of each object written and later read", ..FILL },
    Case { name: "pair", about: "allocate an object and free it", operation: "a pair", ..FILL },
    Case { name: "remote", about: "allocate 10000 objects; free them on another CPU", ..FILL },
];

/// Plans no comparisons, but reports all errors that would stop the contests before the first contest starts.
fn plan(request: &Request) -> Result<Plan, Error> {
    check_b(&request.rivals)?;
    players(&request.settings)?;
    Ok(Plan::default())
}

/// Rejects a policy B whose `slab=` would be ignored: the contest runs every value of it, under exactly one policy B.
fn check_b(rivals: &[NamedPolicy]) -> Result<(), Error> {
    let [b] = rivals else {
        let sentence = "`slab` takes one --b, under which it times every value of `slab=`; run it once for each policy";
        return Err(Error::Input(sentence.to_owned()));
    };
    if b.policy.slab.objects == Policy::FREEHOLD.slab.objects {
        return Ok(());
    }
    Err(Error::Input(format!(
        "`slab` times B under every value of `slab=`, and would ignore the value of `{}`; give B slab=sheaves-bitmap, \
         as in the default, or name other benchmarks",
        b.name
    )))
}

fn epilogue(request: &Request, _: &[ComparisonRow]) -> Result<Epilogue, Error> {
    let settings = &request.settings;
    let cpus = cpus(settings);
    let mut epilogue = Epilogue::default();
    if let Err(error) = Rseq::find() {
        epilogue.notes.push(Note { title: "Not measured".to_owned(), lines: vec![error.to_string()] });
        return Ok(epilogue);
    }
    let mut findings = Findings::default();
    let b = request.rivals.first().expect("the plan checked that there is one policy B");
    let rivals = SlabRival::ALL.map(|rival| rival.rival(request, b, cpus));
    let contest = hold_loops("rivals", &rivals.each_ref().map(|rival| rival as &dyn Contestant), settings)?;
    lists::author(&contest, request, b, &mut findings);
    lists::rivals(&contest, settings, &mut findings);
    sections::primitives(&contest, settings, &mut findings);
    lists::hardening(&contest, settings, &mut findings);
    epilogue.standings.extend(contest.standings("rivals"));
    epilogue.notes.push(runs_note("rivals", &contest));
    let bare = sections::BARE.map(|(name, primitive)| Bare::new(name, primitive, cpus));
    let events: Vec<Event> = events(settings).into_iter().filter(|event| event.work == Work::Pair).take(1).collect();
    let contest =
        contest::hold("slab: sections", &bare.each_ref().map(|bare| bare as &dyn Contestant), &events, settings)?;
    sections::bare(&contest, settings, &mut findings);
    epilogue.standings.extend(contest.standings("sections"));
    let (players, notes) = players(settings)?;
    epilogue.notes.extend(notes);
    if !players.is_empty() {
        let contestants: Vec<&dyn Contestant> = players.iter().map(|player| player as &dyn Contestant).collect();
        let contest = hold_loops("mallocs", &contestants, settings)?;
        mallocs::judge(&contest, settings, &mut findings);
        epilogue.standings.extend(contest.standings("mallocs"));
        epilogue.notes.push(versions(&players));
        epilogue.notes.push(runs_note("mallocs", &contest));
    }
    if settings.partner.is_none() {
        let line = "frees on another CPU: this process may use only one CPU";
        epilogue.notes.push(Note { title: "Not measured".to_owned(), lines: vec![line.to_owned()] });
    }
    if settings.effort == Effort::Quick {
        let line = "100 objects instead of 10000, and few sizes: the times are not representative";
        epilogue.notes.push(Note { title: "Quick run".to_owned(), lines: vec![line.to_owned()] });
    }
    epilogue.notes.push(clock_note());
    let (tables, duels) = findings.finish();
    Ok(Epilogue { tables, duels, ..epilogue })
}

/// Runs a contest in the loops and sizes of this benchmark.
fn hold_loops(name: &str, contestants: &[&dyn Contestant], settings: &Settings) -> Result<Contest, Error> {
    contest::hold(&format!("slab: {name}"), contestants, &events(settings), settings)
}

fn events(settings: &Settings) -> Vec<Event> {
    let (objects, rounds, step) = match settings.effort {
        Effort::Full => (OBJECTS, FILL.pairs, 1),
        Effort::Quick => (100, 1, 4),
    };
    let sizes = Size::TABLE.into_iter().step_by(step);
    let works = Work::ALL.into_iter().filter(|work| *work != Work::Remote || settings.partner.is_some());
    sizes.flat_map(|size| works.clone().map(move |work| Event { work, size, objects, rounds })).collect()
}

fn cpus(settings: &Settings) -> Cpus {
    Cpus { cpu: settings.cpu, partner: settings.partner }
}

/// Returns the mallocs of the programs that are built, and notes on the programs that are not.
fn players(settings: &Settings) -> Result<(Vec<Player>, Vec<Note>), Error> {
    let cpus = cpus(settings);
    let mut players: Vec<Player> = Vec::new();
    let mut notes = Vec::new();
    let given: Vec<_> = match &settings.mallocs[..] {
        [] => vec![(MALLOCS, None), (MIMALLOC_2, None)],
        paths => paths.iter().map(|path| (MALLOCS, Some(path.as_path()))).collect(),
    };
    for (kind, path) in given {
        let Some(program) = kind.find(path)? else {
            notes.push(kind.how_to_build());
            continue;
        };
        for malloc in program.list::<Malloc>()? {
            let is_new = players.iter().all(|player| player.name() != malloc.malloc);
            players.extend(is_new.then(|| malloc.player(&program, cpus)));
        }
    }
    Ok((players, notes))
}

fn versions(players: &[Player]) -> Note {
    Note {
        title: "Versions of the mallocs".to_owned(),
        lines: players.iter().map(|player| format!("{} {}", player.name(), player.version())).collect(),
    }
}

fn runs_note(name: &str, contest: &Contest) -> Note {
    Note { title: "Runs".to_owned(), lines: vec![format!("{name}: {}", contest.runs.len())] }
}

fn clock_note() -> Note {
    let line = format!("{:.2} a nanosecond (time stamp counter of the processor)", clock::rate() / 1e9);
    Note { title: "Ticks".to_owned(), lines: vec![line] }
}
