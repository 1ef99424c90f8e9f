//! Which files hold credentials and are closed to every tool, wherever they lie and whatever they are called.

use std::{
    collections::{HashSet, VecDeque},
    fs::{self, Metadata},
    path::{Path, PathBuf},
};

/// Names that close every path they are a part of.
const CLOSED_NAMES: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".kube",
    ".netrc",
    "_netrc",
    ".git-credentials",
    ".pgpass",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
];

/// Endings of names that hold keys.
const CLOSED_EXTENSIONS: &[&str] = &["pem", "key"];

/// A directory and the file in it that holds logins.
const DOCKER_LOGINS: (&str, &str) = (".docker", "config.json");

/// Files and directories of the daemon's home that are closed.
const CLOSED_IN_HOME: &[&str] = &[
    "credentials.json",
    "permissions.json",
    "trusted.json",
    "run",
];

/// Where credentials of a user lie, below the user's own directory; other names of these files are closed too.
const USER_CREDENTIALS: &[&str] = &[
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    ".netrc",
    ".git-credentials",
    ".pgpass",
    ".docker/config.json",
];

/// Files looked at when collecting the user's credentials; private tuning, far beyond what such directories hold.
const MOST_CREDENTIAL_FILES: usize = 20_000;

/// Says why a path is closed, by its parts; `None` for an open one. The path must be free of links. Touches no file
/// but `home`, to follow its links.
pub fn closed_by_name(path: &Path, home: &Path) -> Option<String> {
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    for (at, part) in parts.iter().enumerate() {
        if let Some(name) = CLOSED_NAMES
            .iter()
            .find(|name| part.eq_ignore_ascii_case(name))
        {
            return Some(format!("paths with a part named `{name}` hold credentials"));
        }
        let extension = part
            .rsplit_once('.')
            .map(|(_, extension)| extension)
            .and_then(|found| {
                CLOSED_EXTENSIONS
                    .iter()
                    .find(|e| found.eq_ignore_ascii_case(e))
            });
        if let Some(extension) = extension {
            return Some(format!("`*.{extension}` files hold keys"));
        }
        let next = parts.get(at + 1);
        if part.eq_ignore_ascii_case(DOCKER_LOGINS.0)
            && next.is_some_and(|next| next.eq_ignore_ascii_case(DOCKER_LOGINS.1))
        {
            return Some("`.docker/config.json` holds logins".to_owned());
        }
    }
    // Most paths hold none of these names, and then the home's links need not be followed.
    parts
        .iter()
        .any(|part| is_closed_in_home(part))
        .then(|| closed_in_home(path, home))?
}

fn is_closed_in_home(name: &str) -> bool {
    CLOSED_IN_HOME
        .iter()
        .any(|closed| name.eq_ignore_ascii_case(closed))
}

fn closed_in_home(path: &Path, home: &Path) -> Option<String> {
    let resolved = fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
    [home, &resolved]
        .into_iter()
        .filter_map(|home| path.strip_prefix(home).ok())
        .filter_map(|inner| inner.iter().next()?.to_str().map(str::to_owned))
        .find(|first| is_closed_in_home(first))
        .map(|first| format!("`{first}` in Crystal's home is closed to tools"))
}

/// The credential files of a user, by identity rather than name.
#[derive(Debug, Default)]
pub struct CredentialFiles(HashSet<(u64, u64)>);

impl CredentialFiles {
    /// Collects those of the user who runs the daemon, and of the daemon's home. Blocks.
    pub fn collect(home: &Path) -> Self {
        Self::collect_below(std::env::home_dir().as_deref(), home)
    }

    fn collect_below(user: Option<&Path>, home: &Path) -> Self {
        let mut waiting: VecDeque<PathBuf> =
            CLOSED_IN_HOME.iter().map(|name| home.join(name)).collect();
        if let Some(user) = user {
            waiting.extend(USER_CREDENTIALS.iter().map(|name| user.join(name)));
        }
        let mut found = HashSet::new();
        let mut seen = 0;
        // Level by level: a deep cache in one directory must not keep the others from being seen.
        while let Some(path) = waiting.pop_front() {
            seen += 1;
            if seen > MOST_CREDENTIAL_FILES {
                break;
            }
            // What cannot be looked at cannot be read under another name by this user either.
            let Ok(metadata) = fs::symlink_metadata(&path) else {
                continue;
            };
            if metadata.is_dir() {
                let inner = fs::read_dir(&path).into_iter().flatten().flatten();
                waiting.extend(inner.map(|entry| entry.path()));
            } else if metadata.is_file() {
                found.extend(identity(&metadata));
            }
        }
        Self(found)
    }

    /// Whether a file is one of them under whatever name.
    pub fn contains(&self, metadata: &Metadata) -> bool {
        identity(metadata).is_some_and(|identity| self.0.contains(&identity))
    }
}

/// Whether a file has other names, so that its own does not tell what it is.
pub fn has_other_names(metadata: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        metadata.is_file() && metadata.nlink() > 1
    }
    #[cfg(not(unix))]
    {
        let _: &Metadata = metadata;
        false
    }
}

/// Says why an existing file is closed although its name is not.
pub fn closed_by_identity(metadata: &Metadata, home: &Path) -> Option<String> {
    (has_other_names(metadata) && CredentialFiles::collect(home).contains(metadata))
        .then(|| OTHER_NAME.to_owned())
}

/// The rule that closes hard links.
pub const OTHER_NAME: &str = "it is another name (hard link) of one of your credential files";

#[cfg(unix)]
fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<(u64, u64)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credential_names_close_a_path_wherever_they_stand() {
        let home = Path::new("/h/.crystal");
        for path in [
            "/w/.ssh/config",
            "/w/a/id_rsa",
            "/w/ID_ED25519",
            "/w/.docker/config.json",
            "/w/tls/server.pem",
            "/w/tls/server.KEY",
            "/w/.netrc",
            "/h/.crystal/credentials.json",
            "/h/.crystal/run/token",
            "/h/.crystal/permissions.json",
            "/h/.crystal/trusted.json",
        ] {
            assert!(closed_by_name(Path::new(path), home).is_some(), "{path}");
        }
        for path in [
            "/w/id_rsa.pub",
            "/w/credentials.json",
            "/w/.docker/Dockerfile",
            "/w/src/key.rs",
            "/w/run/x",
            "/h/.crystal/config.json",
        ] {
            assert_eq!(closed_by_name(Path::new(path), home), None, "{path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_hard_link_to_a_credential_file_is_known_by_its_identity() {
        let dir = tempfile::tempdir().unwrap();
        let user = dir.path().join("user");
        fs::create_dir_all(user.join(".ssh/inner")).unwrap();
        fs::write(user.join(".ssh/inner/secret"), "s").unwrap();
        let link = dir.path().join("innocent.txt");
        fs::hard_link(user.join(".ssh/inner/secret"), &link).unwrap();
        let other = dir.path().join("other.txt");
        fs::write(&other, "o").unwrap();
        let files = CredentialFiles::collect_below(Some(&user), &dir.path().join("home"));
        assert!(files.contains(&fs::metadata(&link).unwrap()));
        assert!(has_other_names(&fs::metadata(&link).unwrap()));
        assert!(!files.contains(&fs::metadata(&other).unwrap()));
    }
}
