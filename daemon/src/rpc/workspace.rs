//! `workspace/*`: trust.

use std::{path::PathBuf, sync::Arc};

use crystal_protocol::{
    error::{ErrorKind, RpcError},
    rpc::{
        WorkspaceParams, WorkspaceTrust, WorkspaceTrustResult, WorkspaceTrustStatus,
        WorkspaceUntrust,
    },
};
use jsonrpsee::core::{RegisterMethodError, server::RpcModule};

use super::{Call, register};
use crate::{engine::settings::directory_of, hub::Hub};

pub(super) fn register_methods(
    module: &mut RpcModule<Arc<Hub>>,
) -> Result<(), RegisterMethodError> {
    register::<WorkspaceTrust, _, _>(module, |params, call| async move {
        let root = root(&params, &call).await?;
        call.hub
            .services()
            .trust
            .trust(&root)
            .await
            .map_err(|error| storage(&error))?;
        status(root, &call).await
    })?;
    register::<WorkspaceUntrust, _, _>(module, |params, call| async move {
        let root = root(&params, &call).await?;
        call.hub
            .services()
            .trust
            .untrust(&root)
            .await
            .map_err(|error| storage(&error))?;
        status(root, &call).await
    })?;
    register::<WorkspaceTrustStatus, _, _>(module, |params, call| async move {
        let root = root(&params, &call).await?;
        status(root, &call).await
    })
}

async fn root(params: &WorkspaceParams, call: &Call) -> Result<PathBuf, RpcError> {
    let workspace = directory_of("workspace", &params.workspace).await?;
    Ok(call.hub.services().trust.root_of(&workspace).await)
}

async fn status(root: PathBuf, call: &Call) -> Result<WorkspaceTrustResult, RpcError> {
    let trusted = call
        .hub
        .services()
        .trust
        .is_trusted(&root)
        .await
        .map_err(|error| storage(&error))?;
    Ok(WorkspaceTrustResult {
        root: root.display().to_string(),
        trusted,
    })
}

fn storage(error: &dyn std::fmt::Display) -> RpcError {
    RpcError::new(ErrorKind::Storage, error.to_string())
}
