//! Connections to clusters by their inventory: the inventory objects on the control plane's host, the hub, name
//! addresses and Secrets.
//!
//! Write access to a repo must not suffice to choose which credentials of the hub are sent where. So the repo only
//! names the clusters, and the objects on the hub say how they are reached. A repo that contradicts them is refused:
//! either it is out of date, or it is an attempt to redirect credentials.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use super::Error;
use super::client::Client;
use super::items::build_object;
use super::kinds::{is_resource_of, object_path, untyped_kind};
use super::path::ApiPath;
use super::request::RepeatableRequest;
use federate_engine::InventoryObject;
use federate_kubernetes::ObjectRef;
use federate_kubernetes::connection::{Authority, Connection, CredentialKeys, SecretName};

/// The inventory on the hub.
#[derive(Clone)]
pub struct HubAccess {
    /// The context of the kubeconfig for the hub.
    pub context: String,
    /// The inventory objects in the repo, by cluster.
    pub inventory: BTreeMap<String, InventoryObject>,
    /// The user to impersonate on the hub.
    pub user: Option<String>,
}

fn unreadable_on_hub(id: &ObjectRef, error: &Error) -> Error {
    Error::Access(format!("the hub's {} {}: {error}", id.kind, id.namespaced_name()))
}

/// The connection of a cluster, by its inventory object on the hub.
pub(super) async fn read_connection(hub: &Client, listed: &InventoryObject) -> Result<Connection, Error> {
    let id = &listed.object;
    let version = ApiPath::from_version(&id.api_version);
    let served = hub
        .request_optional(&RepeatableRequest::get(version))
        .await
        .map_err(|error| unreadable_on_hub(id, &error))?
        .unwrap_or_default();
    let resources = served.get("resources").and_then(Value::as_array).into_iter().flatten();
    let mut of_kind = resources.clone().filter(|resource| is_resource_of(resource, &id.kind));
    let Some(resource) = of_kind.next() else {
        let why =
            format!("the hub does not serve {} {}: is it the control plane's host?", id.api_version, id.kind);
        return Err(Error::Access(why));
    };
    let kind = untyped_kind(&id.api_version, &id.kind, resource);
    let Some(body) = hub
        .request_optional(&RepeatableRequest::get(object_path(&kind, id)))
        .await
        .map_err(|error| unreadable_on_hub(id, &error))?
    else {
        return Err(Error::Access(format!(
            "{} {} is in the repo, but not on the hub",
            id.kind,
            id.namespaced_name()
        )));
    };
    let object = build_object(&kind, body, &id.name.as_str().into());
    let known = listed.dialect.hub().read_connection(&object);
    let known = known.map_err(|error| Error::Access(error.to_string()))?;
    match listed.connection.as_ref().ok().and_then(|claimed| find_difference(claimed, &known)) {
        Some(field) => Err(Error::Access(format!(
            "{} {} has another {field} in the repo than on the hub, which decides where credentials are sent; correct \
             the field in the repo, or remove it there",
            id.kind,
            id.namespaced_name()
        ))),
        None => Ok(known),
    }
}

/// The first field in which the repo differs from the hub.
fn find_difference(claimed: &Connection, known: &Connection) -> Option<&'static str> {
    let fields = [
        ("address", claimed.endpoint.trim() != known.endpoint.trim()),
        ("Secret", claimed.secret != known.secret),
        ("impersonator Secret", claimed.impersonator != known.impersonator),
        ("verification of its certificate", claimed.authority != known.authority),
        ("proxy", claimed.proxy != known.proxy),
    ];
    fields.into_iter().find(|(_, differs)| *differs).map(|(field, _)| field)
}

/// The name of the only context of a kubeconfig that is made here.
pub(super) const INVENTORY_CONTEXT: &str = "inventory";

/// Makes a kubeconfig of a connection. With `impersonates`, the credentials are those that the control plane keeps for
/// impersonation, if it keeps some.
pub(super) async fn build_kubeconfig(
    hub: &Client,
    connection: &Connection,
    impersonates: bool,
) -> Result<Kubeconfig, Error> {
    let mut cluster = json!({"server": server_url(connection)?});
    let secret = read_secret(hub, &connection.secret).await?;
    match &connection.authority {
        Authority::System => {}
        Authority::Unverified => cluster["insecure-skip-tls-verify"] = json!(true),
        Authority::Bundle(certificates) => cluster["certificate-authority-data"] = json!(certificates),
        Authority::Secret(key) => {
            cluster["certificate-authority-data"] = json!(secret_field(&secret, key, &connection.secret)?);
        }
    }
    if let Some(proxy) = &connection.proxy {
        cluster["proxy-url"] = json!(proxy);
    }
    let user = match (connection.credentials, connection.impersonator.as_ref().filter(|_| impersonates)) {
        (_, Some(impersonator)) => token_user(&read_secret(hub, impersonator).await?, "token", impersonator)?,
        (CredentialKeys::Token(key), None) => token_user(&secret, key, &connection.secret)?,
        (CredentialKeys::Certificate { certificate, key }, None) => json!({
            "client-certificate-data": secret_field(&secret, certificate, &connection.secret)?,
            "client-key-data": secret_field(&secret, key, &connection.secret)?,
        }),
    };
    let config = json!({
        "clusters": [{"name": INVENTORY_CONTEXT, "cluster": cluster}],
        "users": [{"name": INVENTORY_CONTEXT, "user": user}],
        "contexts": [{"name": INVENTORY_CONTEXT, "context": {"cluster": INVENTORY_CONTEXT, "user": INVENTORY_CONTEXT}}],
    });
    // The message of serde could quote a credential.
    serde_json::from_value(config)
        .map_err(|_| secret_error(&connection.secret, "it holds no usable credentials"))
}

/// The address as a URL. Plain HTTP is accepted only where certificates are not verified.
fn server_url(connection: &Connection) -> Result<String, Error> {
    let endpoint = connection.endpoint.trim();
    if endpoint.starts_with("http://") && connection.authority != Authority::Unverified {
        let why = format!("its inventory names `{endpoint}`, where credentials would be sent in the clear");
        return Err(Error::Access(why));
    }
    let plain = !endpoint.contains("://");
    Ok(if plain { format!("https://{endpoint}") } else { endpoint.to_owned() })
}

async fn read_secret(hub: &Client, name: &SecretName) -> Result<Value, Error> {
    let path = ApiPath::from_version("v1").in_namespace(&name.namespace).join("secrets").join(&name.name);
    match hub.request_optional(&RepeatableRequest::get(path)).await {
        Ok(Some(secret)) => Ok(secret),
        Ok(None) => Err(secret_error(name, "it does not exist")),
        Err(error) => Err(secret_error(name, &error.to_string())),
    }
}

fn secret_error(name: &SecretName, why: &str) -> Error {
    Error::Access(format!(
        "the hub's Secret {}/{}, which the inventory object names: {why}",
        name.namespace, name.name
    ))
}

/// A value in base64.
fn secret_field<'s>(secret: &'s Value, key: &str, name: &SecretName) -> Result<&'s str, Error> {
    let value = secret.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
    value.filter(|value| !value.is_empty()).ok_or_else(|| secret_error(name, &format!("it has no `{key}`")))
}

fn token_user(secret: &Value, key: &str, name: &SecretName) -> Result<Value, Error> {
    let bytes: Option<ByteString> = serde_json::from_value(json!(secret_field(secret, key, name)?)).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes.0).ok());
    let text = text.ok_or_else(|| secret_error(name, &format!("its `{key}` is not a token")))?;
    Ok(json!({"token": text.trim()}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_https_unless_nothing_is_verified() {
        let of = |endpoint: &str, authority: Authority| {
            server_url(&Connection {
                endpoint: endpoint.to_owned(),
                secret: SecretName { namespace: "n".to_owned(), name: "s".to_owned() },
                credentials: CredentialKeys::Token("token"),
                authority,
                impersonator: None,
                proxy: None,
            })
        };
        assert_eq!(of("10.0.0.1:6443", Authority::System).unwrap(), "https://10.0.0.1:6443");
        assert_eq!(of("https://a/b", Authority::System).unwrap(), "https://a/b");
        assert!(of("http://a", Authority::System).is_err());
        assert_eq!(of("http://a", Authority::Unverified).unwrap(), "http://a");
    }
}
