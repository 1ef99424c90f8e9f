//! `status`: how the daemon is.

use crystal_protocol::{
    client::{ClientError, StartPolicy},
    rpc::{DaemonStatus, DaemonStatusResult, Empty},
};
use serde_json::json;

use crate::{
    context::Context,
    output::{FAILURE, SUCCESS},
};

pub(crate) async fn status(cx: &Context) -> anyhow::Result<u8> {
    let connection = match cx.connect(StartPolicy::Never).await {
        Ok(connection) => connection,
        Err(ClientError::NotRunning { home }) => {
            let home = home.display().to_string();
            let answer = json!({"running": false, "home": home});
            cx.out
                .result(&answer, |_| format!("not running on {home}"))
                .await?;
            return Ok(FAILURE);
        }
        Err(error) => return Err(error.into()),
    };
    let status = connection.client.call::<DaemonStatus>(Empty {}).await?;
    cx.out.result(&status, human).await?;
    Ok(SUCCESS)
}

fn human(status: &DaemonStatusResult) -> String {
    format!(
        "running, pid {}\nversion   {} ({})\nhome      {}\nup        {} s\nsessions  {}\nclients   {}\ntasks     {}\nmemory    {} MiB",
        status.pid,
        status.version,
        status.build,
        status.home,
        status.uptime_ms / 1000,
        status.sessions,
        status.clients,
        status.tasks,
        status.resident_bytes / (1024 * 1024)
    )
}
