//! `doctor`: what is broken here, and what to do. Looks only: nothing is started, made or changed.

use std::path::{Path, PathBuf};

use crystal_protocol::{
    client::{ClientError, Connection, StartPolicy, spawn::daemon_program},
    home::Home,
    rpc::{DaemonStatus, Empty, ModelList},
};
use serde::Serialize;

use crate::{
    context::Context,
    output::{FAILURE, SUCCESS, table},
};

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Verdict {
    Ok,
    /// Works, but the user should know.
    Warning,
    Broken,
}

#[derive(Clone, Debug, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    detail: String,
}

#[derive(Debug, Serialize)]
struct Report {
    ok: bool,
    checks: Vec<Check>,
}

pub(crate) async fn doctor(cx: &Context) -> anyhow::Result<u8> {
    let home = cx.home.clone();
    let mut checks = tokio::task::spawn_blocking(move || of_files(&home)).await?;
    checks.extend(of_daemon(cx).await);
    let ok = checks.iter().all(|check| check.verdict != Verdict::Broken);
    let report = Report { ok, checks };
    cx.out.result(&report, human).await?;
    Ok(if ok { SUCCESS } else { FAILURE })
}

fn human(report: &Report) -> String {
    let rows: Vec<Vec<String>> = report
        .checks
        .iter()
        .map(|check| {
            let mark = match check.verdict {
                Verdict::Ok => "ok",
                Verdict::Warning => "note",
                Verdict::Broken => "BROKEN",
            };
            vec![mark.to_owned(), check.name.to_owned(), check.detail.clone()]
        })
        .collect();
    table(&rows)
}

fn check(name: &'static str, verdict: Verdict, detail: impl Into<String>) -> Check {
    Check {
        name,
        verdict,
        detail: detail.into(),
    }
}

fn of_files(home: &Home) -> Vec<Check> {
    let mut checks = vec![of_home(home)];
    checks.extend(private("run directory", &home.run_dir(), 0o700));
    checks.extend(private(
        "credentials",
        &home.path().join("credentials.json"),
        0o600,
    ));
    checks.extend(private("token", &home.run_dir().join("token"), 0o600));
    checks.push(of_lock(home));
    let daemon = daemon_program();
    let found = if daemon.is_absolute() {
        Some(daemon)
    } else {
        on_path(&daemon)
    };
    checks.push(match found {
        Some(path) => check("program", Verdict::Ok, path.display().to_string()),
        None => check(
            "program",
            Verdict::Broken,
            "crystald is neither beside this program nor on PATH: install it there",
        ),
    });
    checks.push(match on_path(Path::new("bash")) {
        Some(path) => check("shell", Verdict::Ok, path.display().to_string()),
        None => check(
            "shell",
            Verdict::Broken,
            "bash is not on PATH: the bash tools cannot run",
        ),
    });
    checks
}

fn of_home(home: &Home) -> Check {
    let path = home.path();
    let shown = path.display();
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => check("home", Verdict::Ok, shown.to_string()),
        Ok(_) => check("home", Verdict::Broken, format!("{shown} is no directory")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let detail = format!("{shown} is made at the first start");
            check("home", Verdict::Warning, detail)
        }
        Err(error) => check("home", Verdict::Broken, format!("{shown}: {error}")),
    }
}

/// Whether a file or directory, if it is there, is only its owner's.
fn private(name: &'static str, path: &Path, mode: u32) -> Option<Check> {
    let meta = std::fs::metadata(path).ok()?;
    let shown = path.display();
    #[cfg(unix)]
    {
        let found = std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o777;
        if found & 0o077 != 0 {
            let detail = format!("{shown} has mode {found:04o}: run chmod {mode:04o} on it");
            return Some(check(name, Verdict::Broken, detail));
        }
    }
    #[cfg(not(unix))]
    let _unused = (meta, mode);
    Some(check(name, Verdict::Ok, shown.to_string()))
}

fn of_lock(home: &Home) -> Check {
    let path = home.run_dir().join("crystald.lock");
    match std::fs::metadata(&path) {
        Ok(meta) if meta.is_file() => check("lock", Verdict::Ok, path.display().to_string()),
        Ok(_) => {
            let detail = format!("{} is no file: remove it", path.display());
            check("lock", Verdict::Broken, detail)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            check("lock", Verdict::Ok, "none yet")
        }
        Err(error) => check(
            "lock",
            Verdict::Broken,
            format!("{}: {error}", path.display()),
        ),
    }
}

fn on_path(program: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut name = program.as_os_str().to_owned();
    if program.extension().is_none() {
        name.push(std::env::consts::EXE_SUFFIX);
    }
    std::env::split_paths(&path)
        .map(|dir| dir.join(&name))
        .find(|candidate| candidate.is_file())
}

async fn of_daemon(cx: &Context) -> Vec<Check> {
    let socket = cx.home.socket_path();
    let shown = socket.display();
    match cx.connect(StartPolicy::Never).await {
        Ok(connection) => {
            let mut checks = vec![check("socket", Verdict::Ok, shown.to_string())];
            checks.extend(of_connection(&connection).await);
            checks
        }
        Err(ClientError::NotRunning { .. }) => {
            let detail = "not running; the first command that needs it starts it";
            vec![check("daemon", Verdict::Warning, detail)]
        }
        Err(error) => vec![check(
            "socket",
            Verdict::Broken,
            format!("{shown}: {error}"),
        )],
    }
}

async fn of_connection(connection: &Connection) -> Vec<Check> {
    let server = &connection.server.server;
    let mut checks = Vec::new();
    checks.push(
        match connection.client.call::<DaemonStatus>(Empty {}).await {
            Ok(status) => {
                let detail = format!(
                    "pid {}, version {} ({})",
                    status.pid, status.version, status.build
                );
                let same = status.version == env!("CARGO_PKG_VERSION");
                let verdict = if same { Verdict::Ok } else { Verdict::Warning };
                check("daemon", verdict, detail)
            }
            Err(error) => check(
                "daemon",
                Verdict::Broken,
                format!("pid {}: {error}", server.pid),
            ),
        },
    );
    let sandbox = &connection.server.capabilities.sandbox;
    let abi = sandbox
        .landlock_abi
        .map_or_else(String::new, |abi| format!(", ABI {abi}"));
    let net = if sandbox.net { "can" } else { "cannot" };
    let verdict = if sandbox.kind == "none" {
        Verdict::Warning
    } else {
        Verdict::Ok
    };
    let detail = format!("{}{abi}; {net} hold programs off the network", sandbox.kind);
    checks.push(check("sandbox", verdict, detail));
    checks.push(of_keys(connection).await);
    checks
}

async fn of_keys(connection: &Connection) -> Check {
    match connection.client.call::<ModelList>(Empty {}).await {
        Ok(list) => {
            let mut providers: Vec<(String, bool)> = Vec::new();
            for model in list.models {
                match providers
                    .iter_mut()
                    .find(|(name, _)| *name == model.provider)
                {
                    Some((_, key)) => *key |= model.key_present,
                    None => providers.push((model.provider, model.key_present)),
                }
            }
            let named = |with: bool| -> String {
                let names = providers.iter().filter(|(_, key)| *key == with);
                names
                    .map(|(name, _)| name.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let detail = format!("usable: {}; no key: {}", named(true), named(false));
            check("keys", Verdict::Ok, detail)
        }
        Err(error) => check("keys", Verdict::Broken, error.to_string()),
    }
}
