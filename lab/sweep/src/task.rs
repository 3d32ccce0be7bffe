//! Tasks of a plan, each identified by its contents and not by its position in a list.

use freehold_policies::NamedPolicy;
use freehold_trace::kernel::Release;

use crate::digest;
use crate::partition;
use crate::plan::{Plan, RECORDED, Replays, Simulation, Simulations, Study, cpus_label, setting_label};
use crate::subject::Identity;

/// Label of a recording.
pub(crate) const RECORDING: &str = "recording";
/// Label of a policy.
pub(crate) const POLICY: &str = "policy";
/// Label of settings.
pub(crate) const SETTING: &str = "setting";
/// Label of a number of CPUs.
pub(crate) const CPUS: &str = "cpus";
/// Label of a seed.
pub(crate) const SEED: &str = "seed";
/// Label of a host.
pub(crate) const HOST: &str = "host";
/// File name of a part, in the folder of its task.
const PART: &str = "part.parquet";
/// Number of digits of a task's number.
const DIGITS: usize = 32;

/// One replay, or one simulated run or host. Its result depends only on the plan, the bytes of the recording, and the
/// task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Number of the task: a digest of the plan, the contents of the recording, and the combination.
    pub number: String,
    /// Swept axes with their values in this task, in the order of the dataset's folders.
    pub labels: Vec<(String, String)>,
    pub(crate) work: Work,
}

/// Work of a task, as indices in the plan's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A replay under policy A (0), a policy B (from 1), or the recorded kernel's rules (`None`).
    Replay { policy: Option<usize>, setting: Option<usize>, cpus: Option<usize> },
    /// A run or a host at a point.
    Simulate { point: usize, policy: usize, seed: u64, host: u32 },
}

impl Task {
    fn new(plan: &Plan, identity: Option<&Identity>, labels: Vec<(&str, String)>, work: Work) -> Task {
        let swept: Vec<(String, String)> = labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let contents = (plan.digest(), identity.map(|identity| &identity.sha256), &swept);
        let json = serde_json::to_vec(&contents).expect("labels serialize to JSON");
        let number = digest::hash_bytes(json)[..DIGITS].to_owned();
        let recording = identity.map(|identity| (RECORDING.to_owned(), identity.label()));
        Task { number, labels: recording.into_iter().chain(swept).collect(), work }
    }

    /// Returns the path of the task's part in the dataset, with a folder for each label.
    pub fn path(&self) -> String {
        partition_path(&self.labels)
    }
}

/// Returns the path in the dataset of the part with these labels.
pub(crate) fn partition_path(labels: &[(String, String)]) -> String {
    let folders = labels.iter().map(|(key, value)| partition::folder(key, value));
    folders.chain([PART.to_owned()]).collect::<Vec<_>>().join("/")
}

/// Returns whether the text has the form of a task's number.
pub(crate) fn is_number(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

impl Plan {
    /// Returns the tasks of a recording, or all tasks of a plan without recordings. A recording of an unknown kernel
    /// has no tasks.
    pub fn tasks(&self, identity: Option<&Identity>) -> Vec<Task> {
        match (&self.study, identity) {
            (Study::Replays(replays), Some(identity)) => self.replays(replays, identity),
            (Study::Replays(_), None) => Vec::new(),
            (Study::Simulations(simulations), _) => self.simulations(simulations),
        }
    }

    /// Returns the largest number of tasks of a recording, or the number of all tasks of a plan without recordings.
    pub fn tasks_max(&self) -> usize {
        match &self.study {
            Study::Replays(replays) => replays.combinations().count() + 1,
            Study::Simulations(Simulations { kind, points, seeds }) => {
                let hosts = if let Simulation::Hosts(hosts) = kind { *hosts as usize } else { 1 };
                points.iter().map(|point| point.plan.policies.len()).sum::<usize>() * *seeds as usize * hosts
            }
        }
    }

    fn replays(&self, replays: &Replays, identity: &Identity) -> Vec<Task> {
        let Some(release) = Release::parse(&identity.kernel) else { return Vec::new() };
        let mut tasks = Vec::with_capacity(self.tasks_max());
        for (policy, setting, cpus) in replays.combinations() {
            let name = replays.policy(policy).map_or(RECORDED, |policy| &policy.name);
            let labels = vec![
                (POLICY, name.to_owned()),
                (SETTING, setting_label(&replays.settings[setting])),
                (CPUS, cpus_label(replays.cpus[cpus])),
            ];
            let work = Work::Replay { policy: Some(policy), setting: Some(setting), cpus: Some(cpus) };
            tasks.push(Task::new(self, Some(identity), labels, work));
        }
        if !replays.has_baseline(release) {
            let labels = [POLICY, SETTING, CPUS].map(|key| (key, RECORDED.to_owned())).to_vec();
            let work = Work::Replay { policy: None, setting: None, cpus: None };
            tasks.push(Task::new(self, Some(identity), labels, work));
        }
        tasks
    }

    fn simulations(&self, simulations: &Simulations) -> Vec<Task> {
        let hosts = if let Simulation::Hosts(hosts) = simulations.kind { hosts } else { 1 };
        let mut tasks = Vec::with_capacity(self.tasks_max());
        for (point, at) in simulations.points.iter().enumerate() {
            for (policy, named) in at.plan.policies.iter().enumerate() {
                for seed in 1..=u64::from(simulations.seeds) {
                    for host in 1..=hosts {
                        let mut labels = vec![(POLICY, named.name.clone()), (CPUS, at.cpus.to_string())];
                        labels.extend(at.values.iter().map(|(key, value)| (key.as_str(), value.clone())));
                        labels.push((SEED, seed.to_string()));
                        let is_fleet = simulations.kind != Simulation::Runs;
                        labels.extend(is_fleet.then(|| (HOST, host.to_string())));
                        tasks.push(Task::new(self, None, labels, Work::Simulate { point, policy, seed, host }));
                    }
                }
            }
        }
        tasks
    }
}

impl Replays {
    /// Returns policy A for 0, which is `None` for the recorded kernel's rules, or a policy B from 1.
    pub(crate) fn policy(&self, number: usize) -> Option<&NamedPolicy> {
        match number {
            0 => self.a.as_ref(),
            b => Some(&self.b[b - 1]),
        }
    }

    /// Returns the indices of all combinations of policies, settings and CPUs.
    fn combinations(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let (settings, cpus) = (self.settings.len(), self.cpus.len());
        (0..=self.b.len()).flat_map(move |policy| {
            (0..settings).flat_map(move |setting| (0..cpus).map(move |cpus| (policy, setting, cpus)))
        })
    }

    /// Returns whether the replay of A with recorded settings and CPUs is also the replay under the recorded kernel's
    /// rules, the baseline of all comparisons.
    pub(crate) fn has_baseline(&self, kernel: Release) -> bool {
        if !self.settings.contains(&Vec::new()) || !self.cpus.contains(&None) {
            return false;
        }
        let Some(a) = &self.a else { return true };
        freehold_policies::parse(kernel.rules()).is_ok_and(|rules| rules.policy == a.policy)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn plan(cpus: &str) -> Plan {
        let text = format!("title = 'x'\nkind = 'replay'\nb = ['freehold']\n[axes]\ncpus = {cpus}\n");
        Plan::parse("plan.toml", &text).unwrap()
    }

    fn identity(name: &str, sha256: &str) -> Identity {
        Identity { name: name.to_owned(), sha256: sha256.repeat(64), kernel: "6.18.5".to_owned() }
    }

    fn numbers(plan: &Plan, identity: &Identity) -> HashSet<String> {
        plan.tasks(Some(identity)).into_iter().map(|task| task.number).collect()
    }

    #[test]
    fn task_ids_depend_on_contents_and_plan_only() {
        let both = plan("['recorded', 8]");
        let all = numbers(&both, &identity("a", "0"));
        assert_eq!(all.len(), 4);
        assert_eq!(all, numbers(&both, &identity("b", "0")), "whatever the file is called");
        assert_eq!(all, numbers(&plan("[8, 'recorded']"), &identity("a", "0")), "in whatever order");
        assert!(all.is_disjoint(&numbers(&both, &identity("a", "1"))), "other bytes");
        assert!(all.is_disjoint(&numbers(&plan("['recorded', 9]"), &identity("a", "0"))), "another plan");
    }

    #[test]
    fn part_paths_are_unique() {
        let plan = plan("['recorded', 8]");
        let all: Vec<Task> = [("a", "0"), ("a", "1"), ("b", "0")]
            .map(|(name, sha256)| plan.tasks(Some(&identity(name, sha256))))
            .concat();
        assert_eq!(all.iter().map(Task::path).collect::<HashSet<_>>().len(), all.len());
        let first = "recording=a-000000000000/policy=recorded/setting=recorded/cpus=recorded/part.parquet";
        assert_eq!(all[0].path(), first);
    }

    /// If A as recorded is not among the replays, a replay under the recorded kernel's rules is added.
    #[test]
    fn baseline_replay_is_always_included() {
        assert_eq!(plan("[8]").tasks(Some(&identity("a", "0"))).len(), 2 + 1);
        assert_eq!(plan("['recorded']").tasks(Some(&identity("a", "0"))).len(), 2);
        let unknown = Identity { kernel: "1.0".to_owned(), ..identity("a", "0") };
        assert_eq!(plan("[8]").tasks(Some(&unknown)), []);
    }

    #[test]
    fn manifest_round_trips_the_tasks() {
        let plan = plan("[8]");
        let other = Plan::from_manifest(&plan.manifest()).unwrap();
        assert_eq!(other.tasks(Some(&identity("a", "0"))), plan.tasks(Some(&identity("a", "0"))));
        assert!(Plan::from_manifest("{}").unwrap_err().to_string().contains("not the plan of a sweep"));
        let newer = plan.manifest().replace("\"program\": \"", "\"program\": \"9.");
        assert!(Plan::from_manifest(&newer).unwrap_err().to_string().contains("the plan is from freehold 9."));
    }
}
