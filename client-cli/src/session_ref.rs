//! Which session a command means: an id, a prefix, `@last`, or the one that lives in the current directory.

use std::path::Path;

use anyhow::{Context as _, bail};
use crystal_protocol::{
    client::Client,
    ids::SessionId,
    rpc::{SessionList, SessionListParams},
    session::SessionInfo,
};

/// The session that was used last.
const LAST: &str = "@last";

/// The one live session of the current directory's workspace; the same as naming none.
const HERE: &str = "@here";

/// Sessions asked for at a time.
const PAGE: u64 = 100;

/// Pages that are read before a list counts as too long.
const PAGES: usize = 100;

/// Finds the session. An id or prefix is passed on as it is; the daemon knows best.
pub(crate) async fn resolve(client: &Client, word: Option<&str>) -> anyhow::Result<SessionId> {
    match word {
        Some(LAST) => {
            let params = SessionListParams {
                limit: Some(1),
                ..SessionListParams::default()
            };
            let newest = client.call::<SessionList>(params).await?.sessions;
            let newest = newest
                .into_iter()
                .next()
                .context("there is no session yet")?;
            Ok(newest.id)
        }
        None | Some(HERE) => {
            let here = std::env::current_dir()
                .and_then(|dir| dir.canonicalize())
                .context("the current directory cannot be told")?;
            let sessions = all(client, SessionListParams::default()).await?;
            Ok(only_one_here(&here, sessions)?.id)
        }
        Some(id) => Ok(SessionId::new(id)),
    }
}

/// All sessions that fit, page by page.
pub(crate) async fn all(
    client: &Client,
    mut params: SessionListParams,
) -> anyhow::Result<Vec<SessionInfo>> {
    params.limit = Some(PAGE);
    let mut sessions = Vec::new();
    for _ in 0..PAGES {
        let page = client.call::<SessionList>(params.clone()).await?;
        sessions.extend(page.sessions);
        match page.next {
            Some(next) => params.cursor = Some(next),
            None => return Ok(sessions),
        }
    }
    bail!("there are more sessions than can be listed; name one by its id")
}

/// The live session whose workspace holds the directory; of nested workspaces the innermost counts.
fn only_one_here(here: &Path, sessions: Vec<SessionInfo>) -> anyhow::Result<SessionInfo> {
    let mut around: Vec<SessionInfo> = sessions
        .into_iter()
        .filter(|session| session.live && here.starts_with(&session.workspace))
        .collect();
    let depth = around.iter().map(|session| session.workspace.len()).max();
    around.retain(|session| Some(session.workspace.len()) == depth);
    match around.len() {
        0 => bail!(
            "no live session works in {}; name one (see `crystal-ctl sessions`)",
            here.display()
        ),
        1 => Ok(around.remove(0)),
        _ => {
            let ids: Vec<&str> = around.iter().map(|session| session.id.as_str()).collect();
            bail!(
                "{} live sessions work in {}; name one of {}",
                ids.len(),
                here.display(),
                ids.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn session(id: &str, workspace: &str, live: bool) -> SessionInfo {
        let time = "2026-01-01T00:00:00.000Z";
        serde_json::from_value(json!({
            "id": id, "title": "", "workspace": workspace, "addDirectories": [], "mode": "work",
            "approval": "default", "provider": "demo", "model": "demo", "imageInput": true,
            "thinking": "default", "promptSet": "default", "status": "idle", "live": live,
            "clients": [], "createdAt": time, "updatedAt": time, "turns": 0, "seq": 1,
        }))
        .unwrap()
    }

    #[test]
    fn the_innermost_live_workspace_around_the_directory_is_meant() {
        let sessions = vec![
            session("outer", "/w", true),
            session("inner", "/w/sub", true),
            session("saved", "/w/sub", false),
            session("beside", "/w/subject", true),
        ];
        let here = |path: &str| only_one_here(Path::new(path), sessions.clone());
        assert_eq!(here("/w/sub/deep").unwrap().id.as_str(), "inner");
        assert_eq!(here("/w/other").unwrap().id.as_str(), "outer");
        assert!(here("/elsewhere").is_err());
    }

    #[test]
    fn two_sessions_in_one_place_must_be_told_apart_by_name() {
        let sessions = vec![session("one", "/w", true), session("two", "/w", true)];
        let error = only_one_here(Path::new("/w"), sessions)
            .unwrap_err()
            .to_string();
        assert!(error.contains("one, two"), "{error}");
    }
}
