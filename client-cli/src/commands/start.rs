//! `start`: a daemon runs afterwards.

use crystal_protocol::{
    client::StartPolicy,
    rpc::{DaemonStatus, Empty},
};

use crate::{context::Context, output::SUCCESS};

pub(crate) async fn start(cx: &Context) -> anyhow::Result<u8> {
    let connection = cx.connect(StartPolicy::IfAbsent).await?;
    let status = connection.client.call::<DaemonStatus>(Empty {}).await?;
    cx.out
        .result(&status, |status| {
            format!(
                "running on {}, pid {}, version {}",
                status.home, status.pid, status.version
            )
        })
        .await?;
    Ok(SUCCESS)
}
