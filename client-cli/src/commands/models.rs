//! `models`: the catalog.

use crystal_protocol::rpc::{Empty, ModelList, ModelListResult};

use crate::{
    context::Context,
    output::{SUCCESS, table},
    wire::name_of,
};

pub(crate) async fn models(cx: &Context) -> anyhow::Result<u8> {
    let list = cx.client().await?.call::<ModelList>(Empty {}).await?;
    cx.out.result(&list, human).await?;
    Ok(SUCCESS)
}

fn human(list: &ModelListResult) -> String {
    let rows: Vec<Vec<String>> = list
        .models
        .iter()
        .map(|model| {
            let thinking: Vec<String> = model.thinking.iter().map(name_of).collect();
            vec![
                model.provider.clone(),
                model.model.clone(),
                format!("{} tokens", model.context_window),
                if model.image_input { "images" } else { "-" }.to_owned(),
                if model.key_present {
                    "key found"
                } else {
                    "no key"
                }
                .to_owned(),
                thinking.join(","),
            ]
        })
        .collect();
    table(&rows)
}
