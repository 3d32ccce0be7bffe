//! The recorded command: it is found before anything is set up, then started, watched and ended.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getpid, getppid, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal, setrlimit,
};

use crate::error::CaptureError;
use crate::interrupt::Interrupts;

/// Time for a command that outlives its recording to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// A program that exists, and its arguments.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    /// The word with which the user named it, which becomes the program's `argv[0]`.
    word: OsString,
    arguments: Vec<OsString>,
}

impl Program {
    /// Looks up `words[0]` like a shell; the other words are arguments. Returns `None` if there are no words.
    ///
    /// # Errors
    /// If there is no such program, or the named file is not executable.
    pub fn find(words: &[OsString]) -> Result<Option<Program>, CaptureError> {
        let Some((name, arguments)) = words.split_first() else { return Ok(None) };
        let path = locate(name, env::var_os("PATH").as_deref()).ok_or_else(|| unusable(name))?;
        Ok(Some(Program { path, word: name.clone(), arguments: arguments.to_vec() }))
    }

    /// Returns the program's file name, the only part of the command that a recording keeps.
    pub fn name(&self) -> String {
        self.path.file_name().map_or_else(String::new, |name| name.display().to_string())
    }

    /// Starts the program on this process's terminal.
    ///
    /// # Errors
    /// If the kernel refuses to run the file.
    pub fn start(&self) -> Result<Running, CaptureError> {
        self.spawn(&mut self.command())
    }

    /// Starts the program with these limits of open files, which this process may exceed. The kernel kills the program
    /// when the calling thread ends, and so whenever this process ends.
    ///
    /// # Errors
    /// Like [`Program::start`].
    pub fn start_bound(&self, files: Rlimit) -> Result<Running, CaptureError> {
        let parent = getpid();
        let mut command = self.command();
        // SAFETY: `pre_exec` requires that the closure is safe to run between fork and exec. It makes three system
        // calls, allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(move || {
                setrlimit(Resource::Nofile, files)?;
                set_parent_process_death_signal(Some(Signal::KILL))?;
                // The parent may have ended before the death signal was set.
                if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
            })
        };
        self.spawn(&mut command)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.arg0(&self.word).args(&self.arguments);
        command
    }

    fn spawn(&self, command: &mut Command) -> Result<Running, CaptureError> {
        let child = command.spawn().map_err(|source| CaptureError::Spawn { command: self.name(), source })?;
        let pid = Pid::from_child(&child);
        let ended = pidfd_open(pid, PidfdFlags::empty()).map_err(CaptureError::system("watch the command"))?;
        Ok(Running { child, ended })
    }
}

/// Returns the error for a program that [`locate`] does not find.
fn unusable(name: &OsStr) -> CaptureError {
    let command = name.display().to_string();
    match Path::new(name).components().count() > 1 && Path::new(name).is_file() {
        true => CaptureError::Spawn { command, source: io::ErrorKind::PermissionDenied.into() },
        false => CaptureError::UnknownCommand(command),
    }
}

/// Returns the file of a program: a path as it is, and a bare name looked up in `folders` (the value of PATH).
fn locate(name: &OsStr, folders: Option<&OsStr>) -> Option<PathBuf> {
    if Path::new(name).components().count() > 1 {
        return is_executable(Path::new(name)).then(|| PathBuf::from(name));
    }
    env::split_paths(folders?).map(|folder| folder.join(name)).find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// A running command.
#[derive(Debug)]
pub struct Running {
    child: Child,
    ended: OwnedFd,
}

impl Running {
    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns a file descriptor that becomes readable when the command has ended.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Waits for the command, after sending SIGTERM if it still runs. Returns `None` if the command does not end in
    /// time.
    ///
    /// # Errors
    /// If the exit status cannot be read, or the recording is aborted.
    pub fn end(mut self, interrupts: &Interrupts) -> Result<Option<ExitStatus>, CaptureError> {
        let waited = CaptureError::system("get the exit status of the command");
        if let Ok(Some(status)) = self.child.try_wait() {
            return Ok(Some(status));
        }
        // The command may end by itself at this moment, so a failure is ignored.
        let _ = pidfd_send_signal(&self.ended, Signal::TERM);
        let grace = GRACE.try_into().expect("five seconds fit a timespec");
        let readable = interrupts.readable();
        let mut fds = [PollFd::new(&self.ended, PollFlags::IN), PollFd::new(&readable, PollFlags::IN)];
        let polled = poll(&mut fds, Some(&grace));
        interrupts.check()?;
        match polled {
            Ok(0) => Ok(None),
            _ => self.child.wait().map(Some).map_err(waited),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_located_like_in_a_shell() {
        let folders = OsStr::new("/nowhere:/bin:/usr/bin");
        assert_eq!(locate(OsStr::new("sh"), Some(folders)), Some(PathBuf::from("/bin/sh")));
        assert_eq!(locate(OsStr::new("/bin/sh"), None), Some(PathBuf::from("/bin/sh")));
        assert_eq!(locate(OsStr::new("sh"), Some(OsStr::new("/nowhere"))), None);
        assert_eq!(locate(OsStr::new("/etc/passwd"), None), None, "not executable");
        assert_eq!(locate(OsStr::new("/bin"), None), None, "a folder");
    }

    #[test]
    fn unknown_program_is_reported() {
        let error = Program::find(&[OsString::from("no-such-program")]).unwrap_err();
        assert!(error.to_string().contains("`no-such-program`"), "{error}");
        assert!(Program::find(&[]).unwrap().is_none());
    }

    #[test]
    fn ended_command_has_an_exit_status() {
        let program = Program::find(&["sh", "-c", "exit 7"].map(OsString::from)).unwrap().unwrap();
        assert_eq!(program.name(), "sh");
        let running = program.start().unwrap();
        let mut fds = [PollFd::new(&running.ended, PollFlags::IN)];
        poll(&mut fds, None).unwrap();
        assert_eq!(running.end(&Interrupts::deaf()).unwrap().unwrap().code(), Some(7));
    }

    #[test]
    fn running_command_is_terminated() {
        let program = Program::find(&["tail", "-f", "/dev/null"].map(OsString::from)).unwrap().unwrap();
        let status = program.start().unwrap().end(&Interrupts::deaf()).unwrap().expect("tail ends on SIGTERM");
        assert!(!status.success());
    }
}
