//! Which rooms each crate of ours has, on which floors, and what each may import: the table that layers are held to.
//!
//! A room is a folder of the crate's sources, or a file that lies directly in them. Floors stand from the ground up, so
//! a row can only name rooms of rows above it. Rooms that import one another in a circle share a floor, and are open to
//! each other: the table says so rather than hide it.

/// What tests may import beyond what their room may.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tests {
    /// This room, in unit tests that have a file of their own.
    On(&'static str),
    /// Whatever they like.
    All,
}

/// The rooms of one crate.
pub struct House {
    /// Folder of its sources.
    pub root: &'static str,
    /// Whether files that lie directly in it are rooms. If not, they stand above all floors.
    pub has_flat_rooms: bool,
    /// Names at the crate's root that every room may use. A room of them without a floor stands above all floors.
    pub shared: &'static [&'static str],
    /// What is open to tests.
    pub tests: Tests,
    /// Its floors, from the ground up.
    pub floors: &'static [Floor],
}

/// Rooms on one floor, and the rooms that they may import.
pub struct Floor {
    /// The rooms, open to each other.
    pub rooms: &'static [&'static str],
    /// Rooms below that they may import.
    pub below: &'static [&'static str],
}

const fn floor(rooms: &'static [&'static str], below: &'static [&'static str]) -> Floor {
    Floor { rooms, below }
}

impl House {
    /// The floor that has this room.
    pub fn floor(&self, room: &str) -> Option<&'static Floor> {
        self.floors.iter().find(|floor| floor.rooms.contains(&room))
    }

    /// A crate in which files are rooms too, and tests may import what they like.
    const fn flat(root: &'static str, shared: &'static [&'static str], floors: &'static [Floor]) -> House {
        House { root, has_flat_rooms: true, shared, tests: Tests::All, floors }
    }
}

/// Every crate whose rooms have floors.
pub const HOUSES: [House; 16] = [
    House { root: "engine/core/src/", has_flat_rooms: false, shared: &[], tests: Tests::On("machine"), floors: CORE },
    House::flat("lab/trace/src/", &["error", "Error"], TRACE),
    House::flat("lab/report/src/", &[], MEASURE),
    House::flat("lab/convert/src/", &["error", "Error"], EXCHANGE),
    House::flat("malloc/heap/src/", &[], MALLOC),
    House::flat("malloc/preload/src/", &[], PRELOAD),
    House::flat(
        "lab/boot/src/",
        &["error", "Accelerator", "Booted", "Ended", "Guest", "Tools", "boot", "prepare"],
        BOOT,
    ),
    House::flat("dev/validate/src/", &["error", "Args"], ORACLE),
    House::flat("lab/fragmenter/src/", &["error"], FRAGMENT),
    House::flat("lab/inspect/src/", &["Inspection"], INSPECT),
    House::flat(
        "lab/replay/src/",
        &["error", "Engine", "HUGE", "Options", "Pacing", "Probe", "ProbeCounts", "ReclaimMode", "Watch"],
        REPLAY,
    ),
    House::flat("lab/sim/src/", &["error", "CPUS_MAX", "NODES_MAX"], SIM),
    House::flat("lab/sweep/src/", &["error", "Failure"], SWEEP),
    House::flat(
        "lab/bench/src/",
        &["error", "Bench", "Case", "Effort", "Epilogue", "Method", "Plan", "Request", "Settings"],
        BENCH,
    ),
    House::flat("dev/findings/src/", &["error", "Args", "Page", "command"], FINDINGS),
    House::flat("lab/cli/src/", &["error"], LAB),
];

const CORE: &[Floor] = &[
    floor(&["base"], &[]),
    floor(&["policy"], &["base"]),
    floor(&["platform"], &["base", "policy"]),
    floor(&["page"], &["base", "platform", "policy"]),
    floor(&["slab"], &["base", "platform", "policy", "page"]),
    floor(&["kernel"], &["base", "platform", "policy", "page", "slab"]),
    floor(&["machine"], &["base", "platform", "policy", "page", "slab"]),
];

const TRACE: &[Floor] = &[
    floor(&["checksum", "error", "event", "facts", "format", "gfp", "kernel", "schema", "thrift"], &[]),
    floor(&["batch"], &["event", "schema"]),
    floor(&["gfp_names"], &["gfp"]),
    floor(&["bounds"], &["event", "facts"]),
    floor(&["check", "lives"], &["batch", "bounds", "event"]),
    floor(&["columns"], &["batch", "event"]),
    floor(&["possible"], &["bounds", "check", "event", "facts", "kernel"]),
    floor(&["ring"], &["format"]),
    floor(&["recipes"], &["event"]),
    floor(&["decode"], &["event", "format", "gfp", "recipes", "ring"]),
    floor(&["procfs", "snapshot", "state"], &["event", "facts"]),
    floor(&["stacks"], &["facts"]),
    floor(&["footer"], &["schema", "thrift"]),
    floor(&["pages"], &["thrift"]),
    floor(&["group"], &["batch", "pages", "schema"]),
    floor(
        &["reader"],
        &["batch", "bounds", "check", "checksum", "event", "facts", "footer", "group", "lives", "possible", "schema"],
    ),
    floor(&["part_file"], &[]),
    floor(&["gathered"], &["event", "part_file", "schema"]),
    floor(&["writer"], &["bounds", "check", "checksum", "event", "facts", "gathered", "part_file", "schema"]),
    floor(&["recording"], &["kernel", "reader"]),
];

const EXCHANGE: &[Floor] = &[
    floor(&["bytes", "gfp", "item", "pairs", "tasks", "input"], &[]),
    floor(&["spool", "tracing"], &["bytes"]),
    floor(&["survey"], &["item", "pairs", "spool", "tasks"]),
    floor(&["imported"], &["item", "survey"]),
    floor(&["start"], &["imported"]),
    floor(&["machine"], &["item", "survey"]),
    floor(&["records"], &["item", "tracing"]),
    floor(&["settle"], &["machine", "records", "start"]),
    floor(&["perf", "tracecmd", "text"], &["bytes", "gfp", "input", "item", "records", "tracing"]),
    floor(&["kind"], &["perf", "text", "tracecmd", "tracing"]),
    floor(
        &["import"],
        &[
            "imported", "input", "item", "kind", "machine", "perf", "settle", "spool", "start", "survey", "text",
            "tracecmd",
        ],
    ),
    floor(&["export"], &["gfp"]),
];

const MEASURE: &[Floor] = &[
    floor(&["affinity"], &[]),
    floor(&["markdown"], &[]),
    floor(&["number"], &[]),
    floor(&["observer"], &[]),
    floor(&["origin"], &[]),
    floor(&["parallel"], &["observer"]),
    floor(&["stats"], &[]),
    floor(&["terminal"], &[]),
    floor(&["clock"], &["affinity", "stats"]),
    floor(&["spin_barrier"], &["affinity"]),
    floor(&["progress"], &["number", "observer", "terminal"]),
    floor(&["verdict"], &["terminal"]),
    floor(&["groups"], &["verdict"]),
    floor(&["report"], &["markdown", "number", "stats", "terminal", "verdict"]),
    floor(&["output"], &[]),
    floor(&["room"], &["number"]),
    floor(&["formats"], &["origin", "output", "report", "terminal"]),
];

const MALLOC: &[Floor] = &[
    floor(&["os"], &[]),
    floor(&["heap"], &["os"]),
    floor(&["runs"], &["os"]),
    floor(&["process"], &["os", "heap", "runs"]),
    floor(&["global"], &["process"]),
];

const PRELOAD: &[Floor] = &[
    floor(&["c"], &[]),
    floor(&["cxx"], &[]),
    floor(&["introspect"], &[]),
    floor(&["namespaces"], &[]),
    floor(&["profile"], &["c"]),
    floor(&["exit"], &["introspect"]),
];

const INSPECT: &[Floor] = &[
    floor(&["frames"], &[]),
    floor(&["lifetimes"], &[]),
    floor(&["machine"], &[]),
    floor(&["memory"], &[]),
    floor(&["oddity"], &[]),
    floor(&["stacks"], &[]),
    floor(&["start"], &[]),
    floor(&["census"], &["lifetimes"]),
    floor(&["heaps"], &["census", "machine"]),
    floor(&["pairing"], &["frames", "lifetimes", "oddity", "start"]),
    floor(&["pressure"], &["census", "pairing"]),
    floor(&["sections"], &["pairing"]),
    floor(&["course"], &["machine"]),
    floor(&["map"], &["memory"]),
    floor(&["diff"], &["course"]),
    floor(&["runs"], &["diff"]),
    floor(&["report"], &["course", "machine", "memory"]),
];

const SWEEP: &[Floor] = &[
    floor(&["error"], &[]),
    floor(&["digest"], &[]),
    floor(&["partition"], &["digest"]),
    floor(&["plan"], &["digest"]),
    floor(&["subject"], &["digest"]),
    floor(&["task"], &["digest", "partition", "plan", "subject"]),
    floor(&["part"], &["digest", "plan", "subject", "task"]),
    floor(&["outcome"], &["part"]),
    floor(&["replaying"], &["outcome", "plan", "subject"]),
    floor(&["simulating"], &["outcome", "part", "plan", "task"]),
    floor(&["worker"], &["outcome", "part", "plan", "replaying", "simulating", "subject", "task"]),
    floor(&["folder"], &["part", "plan", "subject", "task"]),
    floor(&["local"], &["folder", "plan", "subject", "task", "worker"]),
    floor(&["report"], &["outcome", "part", "plan", "simulating", "subject", "task"]),
];

const FRAGMENT: &[Floor] = &[
    floor(&["error"], &[]),
    floor(&["kind"], &[]),
    floor(&["wanted"], &[]),
    floor(&["scope"], &[]),
    floor(&["zones"], &["wanted"]),
    floor(&["region"], &["wanted"]),
    floor(&["guard"], &["wanted", "zones"]),
    floor(&["census"], &["kind", "wanted"]),
    floor(&["frames"], &["region", "wanted"]),
    floor(&["exact"], &["census", "frames", "guard", "kind", "region", "wanted"]),
    floor(&["order"], &["guard", "wanted"]),
    floor(&["stores"], &["exact", "order", "region", "wanted"]),
    floor(&["placed"], &["census", "exact", "guard", "kind", "order", "stores", "wanted"]),
    floor(&["limits"], &["exact", "kind", "wanted", "zones"]),
    floor(&["hold"], &["scope"]),
    floor(&["report"], &["kind", "zones"]),
    floor(&["sustain"], &["census", "guard", "hold", "placed", "wanted", "zones"]),
    floor(&["proof"], &["census", "exact", "guard", "kind", "report", "wanted", "zones"]),
];

const BOOT: &[Floor] = &[
    floor(&["error"], &[]),
    floor(&["accelerator"], &[]),
    floor(&["console"], &[]),
    floor(&["fingerprint"], &[]),
    floor(&["setting"], &[]),
    floor(&["size"], &[]),
    floor(&["version"], &[]),
    floor(&["delivery"], &[]),
    floor(&["host"], &[]),
    floor(&["image"], &[]),
    floor(&["interrupt"], &[]),
    floor(&["workload"], &["host"]),
    floor(&["debian"], &["host", "version"]),
    floor(&["kernel"], &["host", "image"]),
    floor(&["emulator"], &["kernel"]),
    floor(&["kvm"], &["console", "emulator", "kernel"]),
    floor(&["store"], &["debian", "kernel", "version"]),
    floor(&["module"], &["debian", "host", "kernel"]),
    floor(&["initramfs"], &["host", "module"]),
    floor(&["machine"], &["console", "emulator", "interrupt"]),
    floor(&["series"], &["fingerprint", "interrupt"]),
];

const ORACLE: &[Floor] = &[
    floor(&["error"], &[]),
    floor(&["cell"], &[]),
    floor(&["failures"], &[]),
    floor(&["judge"], &["failures"]),
    floor(&["lab"], &["cell"]),
    floor(&["suite"], &["cell", "judge"]),
    floor(&["prediction"], &["cell", "judge", "lab", "suite"]),
    floor(&["changes"], &["cell", "judge", "lab", "suite"]),
    floor(&["page"], &["cell", "prediction", "suite"]),
];

const REPLAY: &[Floor] = &[
    floor(&["error"], &[]),
    floor(&["touched"], &[]),
    floor(&["identity"], &["touched"]),
    floor(&["counts", "lists"], &[]),
    floor(&["report"], &[]),
    floor(&["settings"], &[]),
    floor(&["advice"], &["counts", "report", "settings"]),
    floor(&["divergence", "moments"], &["counts", "report", "touched"]),
    floor(&["survey", "machine", "platform", "memory"], &["counts", "identity", "lists", "settings"]),
    floor(&["schedule"], &["platform", "survey"]),
    floor(&["cached"], &["machine", "settings", "survey"]),
    floor(&["start"], &["cached", "machine", "settings", "survey"]),
    floor(
        &["player"],
        &["divergence", "identity", "lists", "memory", "moments", "report", "schedule", "settings", "survey"],
    ),
    floor(&["fidelity"], &["counts", "player", "report", "survey"]),
    floor(&["outcome"], &["counts", "fidelity", "player", "report", "survey"]),
];

const SIM: &[Floor] = &[
    floor(&["costs"], &[]),
    floor(&["machine"], &[]),
    floor(&["measure"], &[]),
    floor(
        &["cpu", "executor", "mailbox", "memory", "virtual_time", "workload", "world"],
        &["costs", "machine", "measure"],
    ),
    floor(&["measures"], &[]),
    floor(&["meter"], &["machine", "world"]),
    floor(&["start"], &["machine", "memory", "virtual_time", "workload"]),
    floor(
        &["run"],
        &["costs", "cpu", "machine", "measure", "memory", "meter", "start", "virtual_time", "workload", "world"],
    ),
    floor(&["threads"], &["cpu", "executor", "measure", "memory", "run", "world"]),
    floor(&["plan"], &["costs", "machine", "start", "workload", "world"]),
    floor(&["sweep"], &["costs", "machine", "measure", "meter", "plan", "run", "world"]),
    floor(&["calibrate"], &["costs", "cpu", "machine", "measure", "run", "threads", "workload", "world"]),
    floor(&["report"], &["costs", "measure", "measures", "plan", "run", "sweep", "workload"]),
    floor(
        &["fleet"],
        &["costs", "machine", "measure", "measures", "meter", "plan", "report", "run", "workload", "world"],
    ),
];

const BENCH: &[Floor] = &[
    floor(&["error"], &[]),
    floor(&["decide"], &[]),
    floor(&["bar", "run", "session", "subject"], &["decide"]),
    floor(&["contest", "recipe", "report", "values"], &["bar", "decide", "run", "session", "subject"]),
    floor(&["engine"], &["bar", "subject"]),
    floor(&["program"], &["report"]),
    floor(&["mallocs"], &["contest", "program"]),
    floor(&["peers"], &["program", "subject"]),
    floor(&["cases"], &["bar", "contest", "decide", "engine", "mallocs", "peers", "report", "subject", "values"]),
    floor(&["synthetic"], &["bar", "decide", "run", "session", "subject"]),
    floor(&["whole"], &["error", "decide", "report"]),
    floor(&["corruption"], &["error", "whole"]),
];

const FINDINGS: &[Floor] = &[
    floor(&["error"], &[]),
    floor(&["markup"], &[]),
    floor(&["template"], &[]),
    floor(&["folder"], &[]),
    floor(&["bench"], &["markup"]),
    floor(&["owned"], &["markup", "template"]),
    floor(&["highatomic"], &["markup", "template"]),
    floor(&["ages"], &["markup", "template"]),
];

const LAB: &[Floor] = &[floor(&["error"], &[]), floor(&["stdout"], &[]), floor(&["cli", "cmd"], &[])];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_stand_on_floors_below_them_alone() {
        for house in &HOUSES {
            let mut standing: Vec<&str> = Vec::new();
            for Floor { rooms, below } in house.floors {
                for room in *below {
                    assert!(standing.contains(room), "{}: `{room}` does not lie below {rooms:?}", house.root);
                }
                for room in *rooms {
                    assert!(!standing.contains(room), "{}: `{room}` has two rows", house.root);
                    standing.push(room);
                }
            }
        }
    }
}
