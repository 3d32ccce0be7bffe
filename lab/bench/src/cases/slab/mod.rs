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
//! findings   tables and duels
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
    asks: "What does an object cost, with one word or two, lists, arrays or bits, and in other people's mallocs?",
    question: "The per-CPU list of the slab allocator was two words in Linux 6.12: the list, and the slab that it is of. \
        The change (Christoph Lameter, V1, 2014-12-10) ends the list in a pointer into its own slab with the lowest bit \
        set, so that one word says both, and needs no guard against preemption between two of them. His cycles stand in \
        the table below, before and after. In a process the idea finds its true use: a restartable sequence can commit \
        one store. Since then Linux itself has chosen arrays of objects (sheaves). So: what is gained by one word, and \
        how much of that is the guard's? When do arrays win? What does the sequence cost above doing nothing, and what \
        would a lock cost? And is the whole any good beside the mallocs that others have published?",
    reading: "Figures are ticks an operation, medians over the runs; a ratio is that of two contestants within a run, and \
        the median of those. In a `fill` the objects are allocated one after the other and then freed in that order; a \
        `pair` is an object freed as soon as it is allocated, and its figure is for both. `remote` has a thread on another \
        CPU free what this one allocated, while the other waits: the free includes fetching what the slab keeps of the \
        object from the other CPU's cache, and so does the next allocation. Nothing is written to an object, except in \
        `fill-touched`, where a byte of each is written and read again. That matters: a list goes through \
        the objects, while arrays and words beside slabs do not touch them. `fill` is their best case, and `fill-touched` \
        says what is left of it for somebody who uses what he allocates. A *bar* is what was promised before anything was \
        measured: *met* if the whole interval keeps it, *missed* if nothing of it does, else *open*.\n\n\
        The author's cycles are of another machine, of a kernel, and of a version with two bugs (remote frees of an \
        exhausted list were lost, and the test for the same slab missed the first object): they say in which direction \
        the change goes, and no more. The guard is emulated: a counter of the thread is raised and lowered around the \
        list, as CONFIG_PREEMPT has it. `tagged/A, no guard` is the part of the gain that is not the guard's. Unless policies \
        say otherwise, both sides of his table have slabs of the sizes that `freehold` gives them (`slab.min_objects` and \
        the like), which no Linux has; the table after it has Linux's.\n\n\
        Policies and primitives are compared in one process, each as code built for it alone and called through a table \
        of functions; that call, and the choice of a cache by size, is in all of them. Objects of 16384 bytes come from the page allocator where sizes are Linux's (`slab.sizes`). Other people's mallocs are called \
        by address, as ours is there, each in a process of its own. A loop over one size is the best case of every cache, \
        and says nothing about memory. Of a hundred verdicts on contestants that are the same, five may err.\n\n\
        *What was chosen.* `freehold` has arrays before slabs of bits (`sheaves-bitmap`): a free on another CPU, which a malloc \
        cannot choose, costs them a fraction of what it costs lists, and nothing else here is as far apart. They are not the best \
        everywhere. Whoever allocates thousands of objects before he frees one, and touches them, is better off with \
        `slab=tagged`: sheaves overflow then, so most objects go through slabs, and a list has already fetched the line that \
        is touched.\n\n\
        *Why bars are missed.* One word against two, in pairs: each step waits for the word that the last one wrote, and \
        much of what the guard costs is hidden in that wait. A lock: one that nobody else wants is an exchange in the \
        CPU's own cache, and that is not four times the cost of a section. Other mallocs: in a `fill` most objects pass through a \
        sheaf to a slab and are paid for twice, where others free onto the list of the object's own page; in a `pair` the \
        place of the last object is written and read twice, one after the other.",
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
    Case { name: "fill-touched", about: "the same, and a byte of each object is written and later read", ..FILL },
    Case { name: "pair", about: "allocate an object and free it", operation: "a pair", ..FILL },
    Case { name: "remote", about: "allocate 10000 objects; free them on another CPU", ..FILL },
];

/// Plans no comparisons, but reports all errors that would stop the contests before the first contest starts.
fn plan(request: &Request) -> Result<Plan, Error> {
    check_b(&request.rivals)?;
    players(&request.settings)?;
    Ok(Plan::default())
}

/// Refuses a policy B whose `slab=` the contest would silently ignore: the contest runs every way of keeping objects,
/// under exactly one policy B.
fn check_b(rivals: &[NamedPolicy]) -> Result<(), Error> {
    let [b] = rivals else {
        let sentence = "`slab` takes one --b, under which it times every `slab=`; run it once for each";
        return Err(Error::Input(sentence.to_owned()));
    };
    if b.policy.slab.objects == Policy::FREEHOLD.slab.objects {
        return Ok(());
    }
    Err(Error::Input(format!(
        "`slab` times B under every `slab=` by itself, and would pass over that of `{}`; let B have slab=sheaves-bitmap, \
         as the default does, or name other benchmarks",
        b.name
    )))
}

fn epilogue(request: &Request, _: &[ComparisonRow]) -> Result<Epilogue, Error> {
    let settings = &request.settings;
    let cpus = cpus(settings);
    let mut epilogue = Epilogue::default();
    if let Err(error) = Rseq::find() {
        epilogue.notes.push(Note { title: "Nothing was measured".to_owned(), lines: vec![error.to_string()] });
        return Ok(epilogue);
    }
    let mut findings = Findings::default();
    let b = request.rivals.first().expect("a plan is made for one policy B");
    let rivals = SlabRival::ALL.map(|rival| rival.rival(request, b, cpus));
    let contest = held("the slab's rivals", &rivals.each_ref().map(|rival| rival as &dyn Contestant), settings)?;
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
        let everybody: Vec<&dyn Contestant> = players.iter().map(|player| player as &dyn Contestant).collect();
        let contest = held("mallocs", &everybody, settings)?;
        mallocs::judge(&contest, settings, &mut findings);
        epilogue.standings.extend(contest.standings("mallocs"));
        epilogue.notes.push(versions(&players));
        epilogue.notes.push(runs_note("mallocs", &contest));
    }
    if settings.partner.is_none() {
        let line = "this process may use one CPU only; give it two to time frees on another CPU";
        epilogue.notes.push(Note { title: "Left out".to_owned(), lines: vec![line.to_owned()] });
    }
    if settings.effort == Effort::Quick {
        let line = "100 objects instead of 10000, and a few sizes only: this says that it works, and not how fast";
        epilogue.notes.push(Note { title: "This was a quick run".to_owned(), lines: vec![line.to_owned()] });
    }
    epilogue.notes.push(clock_note());
    Ok(Epilogue { tables: findings.tables, duels: findings.duels, ..epilogue })
}

/// Runs a contest in the loops and sizes of this benchmark.
fn held(name: &str, contestants: &[&dyn Contestant], settings: &Settings) -> Result<Contest, Error> {
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
        title: "The mallocs' versions".to_owned(),
        lines: players.iter().map(|player| format!("{:12} {}", player.name(), player.version())).collect(),
    }
}

fn runs_note(name: &str, contest: &Contest) -> Note {
    let title = format!("Runs of the contest of {name}");
    Note { title, lines: vec![format!("{}, each with everybody built anew", contest.runs.len())] }
}

fn clock_note() -> Note {
    let line = format!("{:.2} a nanosecond, the processor's time stamp counter", clock::rate() / 1e9);
    Note { title: "Ticks".to_owned(), lines: vec![line] }
}
