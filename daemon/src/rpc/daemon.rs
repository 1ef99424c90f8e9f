//! `initialize`, `daemon/*`, `model/list`.

use std::sync::Arc;

use crystal_protocol::{
    client_ref::ClientRef,
    error::{ErrorKind, RpcError},
    rpc::{
        Capabilities, DaemonShutdown, DaemonStatus, DaemonStatusResult, DaemonSubscribe,
        DaemonUnsubscribe, Empty, Environment, Initialize, InitializeParams, InitializeResult,
        ModelList, ModelListResult, SandboxCapability, ServerInfo, ShutdownMode, WireLimits,
    },
    version,
};
use jsonrpsee::core::{RegisterMethodError, server::RpcModule};

use super::{Call, Peer, Phase, Then, register};
use crate::hub::Hub;

/// Longest client name that is kept, in characters.
const NAME_CHARS: usize = 100;

pub(super) fn register_methods(
    module: &mut RpcModule<Arc<Hub>>,
) -> Result<(), RegisterMethodError> {
    register::<Initialize, _, _>(
        module,
        |params, call| async move { initialize(params, &call) },
    )?;
    register::<DaemonStatus, _, _>(module, |_, call| async move { Ok(status(&call)) })?;
    register::<DaemonSubscribe, _, _>(module, |_, call| async move {
        call.after_answer(Then::Subscribe);
        Ok(Empty {})
    })?;
    register::<DaemonUnsubscribe, _, _>(module, |_, call| async move {
        call.after_answer(Then::Unsubscribe);
        Ok(Empty {})
    })?;
    register::<DaemonShutdown, _, _>(module, |params, call| async move {
        shut_down(params.mode, &call).await
    })?;
    register::<ModelList, _, _>(module, |_, call| async move {
        let own;
        let caller = call.caller()?;
        let variables = match &caller.environment {
            Some(environment) => &environment.0,
            None => {
                own = Environment::of_this_process();
                &own.0
            }
        };
        Ok(ModelListResult {
            models: call.hub.services().catalog.models(variables),
        })
    })
}

fn initialize(params: InitializeParams, call: &Call) -> Result<InitializeResult, RpcError> {
    if matches!(call.connection.phase(), Phase::Ready(_)) {
        return Err(RpcError::new(
            ErrorKind::InvalidRequest,
            "This connection is initialized already; open another one to say something else.",
        ));
    }
    let Some(protocol) = version::negotiate(params.protocol) else {
        let supported = version::SUPPORTED;
        let message = format!(
            "This daemon ({}) speaks protocol {} to {}, the client {} {} speaks {} to {}. Run `crystal-ctl stop` and start the newer crystald, or update the client.",
            env!("CARGO_PKG_VERSION"),
            supported.min,
            supported.max,
            params.client.name,
            params.client.version,
            params.protocol.min,
            params.protocol.max,
        );
        return Err(RpcError::new(ErrorKind::UnsupportedProtocol, message)
            .with("supported", serde_json::json!(supported))
            .with("requested", serde_json::json!(params.protocol))
            .with("serverVersion", env!("CARGO_PKG_VERSION"))
            .with("clientVersion", params.client.version)
            .with("command", "crystal-ctl stop"));
    };
    let name = params
        .client
        .name
        .chars()
        .filter(|c| !c.is_control())
        .take(NAME_CHARS)
        .collect();
    let client = ClientRef {
        connection: call.connection.id.clone(),
        name,
        role: params.role,
    };
    call.connection.introduce(Peer {
        client,
        environment: params.environment.map(Arc::new),
    });
    let (_, started_at) = call.hub.started();
    Ok(InitializeResult {
        protocol,
        server: ServerInfo {
            name: "crystald".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: build(),
            pid: std::process::id(),
            started_at,
        },
        home: call.hub.services().paths.root().display().to_string(),
        connection: call.connection.id.clone(),
        limits: WireLimits::default(),
        capabilities: Capabilities {
            stdio: true,
            websocket: false,
            sandbox: SandboxCapability {
                kind: "none".to_owned(),
                landlock_abi: None,
                net: false,
            },
        },
    })
}

fn build() -> String {
    match option_env!("CRYSTAL_REVISION") {
        Some(revision) => format!("{}+{revision}", env!("CARGO_PKG_VERSION")),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn status(call: &Call) -> DaemonStatusResult {
    let (started, _) = call.hub.started();
    DaemonStatusResult {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        build: build(),
        uptime_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        home: call.hub.services().paths.root().display().to_string(),
        sessions: call.hub.live_sessions().len() as u64,
        clients: call.hub.connections() as u64,
        tasks: 0,
        resident_bytes: resident_bytes(),
    }
}

/// Resident memory, where the platform tells. The file is the kernel's own and waits for no disk, so it is read in place.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|kib| kib.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

async fn shut_down(mode: ShutdownMode, call: &Call) -> Result<Empty, RpcError> {
    match mode {
        ShutdownMode::IfIdle => {
            // The caller's own connection does not keep the daemon alive.
            if !call.hub.begin_shutdown(Some(1)) {
                return Err(RpcError::new(
                    ErrorKind::SessionBusy,
                    "The daemon is not idle: a turn, an open prompt or another client is there. Wait, or use mode graceful.",
                ));
            }
        }
        ShutdownMode::Graceful | ShutdownMode::Now => {
            call.hub.begin_shutdown(None);
        }
    }
    // The hub ends the daemon even when this call goes away with its connection.
    if call.hub.end(mode).await.is_err() {
        tracing::debug!("the end was not waited for");
    }
    call.after_answer(Then::ShutDown(mode));
    Ok(Empty {})
}
