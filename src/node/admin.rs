//! The operators' HTTP: metrics, probes, settings, sessions, drain. On its own listener, loopback by default.
//!
//! With an `admin_token` all but the probes ask for it, as a bearer token; without one whoever reaches it may drain the
//! relay, but for pages of others in an operator's browser (`page`). Nothing it does waits for a shard without a bound.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use subtle::ConstantTimeEq;

use super::control::{Control, ShardBusy};
use super::page;
use crate::limits::SESSIONS_PAGE_MAX;
use crate::net::clock::monotonic_us;

/// Sessions in a page when nothing is said.
const PAGE: usize = 100;

/// The routes over a running relay.
pub fn router(control: Arc<Control>) -> Router {
    let guarded = Router::new()
        .route("/metrics", get(metrics))
        .route("/config", get(config))
        .route("/sessions", get(sessions))
        .route("/drain", post(drain))
        .route_layer(from_fn_with_state(Arc::clone(&control), admit));
    Router::new()
        .route("/live", get(live))
        .route("/ready", get(ready))
        .merge(guarded)
        .fallback(nothing)
        .with_state(control)
}

/// Lets those pass who show the token, where there is one (SPEC OPS3), and otherwise all but pages of others.
async fn admit(State(control): Relay, request: Request, next: Next) -> Response {
    let refused = refusal(&control, request.headers());
    if refused.is_some() {
        control.refuse_admin();
    }
    match refused {
        None => next.run(request).await,
        Some((StatusCode::UNAUTHORIZED, error)) => {
            let mut refusal = reply(StatusCode::UNAUTHORIZED, &json!({ "error": error }));
            let scheme = header::HeaderValue::from_static("Bearer");
            refusal.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
            refusal
        }
        Some((status, error)) => reply(status, &json!({ "error": error })),
    }
}

/// Why a request is not answered in full, if so.
fn refusal(control: &Control, headers: &HeaderMap) -> Option<(StatusCode, String)> {
    let wanted = control.settings.admin_token.expose();
    if wanted.is_empty() {
        return page::foreign(headers).map(|error| (StatusCode::FORBIDDEN, error));
    }
    let shown = headers.get(header::AUTHORIZATION);
    let shown = shown.and_then(|value| bearer(value.as_bytes()));
    if shown.is_some_and(|shown| shown.ct_eq(wanted).into()) {
        return None;
    }
    let error = "this needs the relay's admin_token: send the header Authorization: Bearer TOKEN";
    Some((StatusCode::UNAUTHORIZED, error.to_owned()))
}

/// The token of an Authorization header: the scheme is of any case (RFC 9110, 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

/// The relay's state as its handlers get it.
type Relay = State<Arc<Control>>;

fn reply(status: StatusCode, body: &Value) -> Response {
    let mut text = format!("{body:#}");
    text.push('\n');
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

async fn metrics(State(control): Relay) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], control.metrics_text()).into_response()
}

/// Alive while every shard's loop turns; the upstream has no say (FAULTS 81).
async fn live(State(control): Relay) -> Response {
    match control.status.stalled_shard(monotonic_us()) {
        None => reply(StatusCode::OK, &json!({ "live": true })),
        Some(shard) => {
            let reason = format!("shard {shard} has not turned for five seconds");
            reply(
                StatusCode::SERVICE_UNAVAILABLE,
                &json!({ "live": false, "reasons": [reason] }),
            )
        }
    }
}

/// Ready once the first keyframe is in and until a drain (FAULTS 81). What the upstreams are called and what is wrong with them
/// is for those alone who may have all the rest.
async fn ready(State(control): Relay, headers: HeaderMap) -> Response {
    let mut reasons = control.status.unready();
    let is_ready = reasons.is_empty();
    let status = match is_ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    // A probe shows no token and is no intruder; who shows a wrong one may be.
    if refusal(&control, &headers).is_some() {
        if headers.contains_key(header::AUTHORIZATION) {
            control.refuse_admin();
        }
        return reply(status, &json!({ "ready": is_ready, "reasons": reasons }));
    }
    let mut troubles = control.status.troubles();
    troubles.extend(control.status.full());
    if !is_ready {
        reasons.append(&mut troubles);
    }
    let mut body = json!({ "ready": is_ready, "reasons": reasons });
    if !troubles.is_empty() {
        body["warnings"] = json!(troubles);
    }
    reply(status, &body)
}

async fn config(State(control): Relay) -> Response {
    reply(StatusCode::OK, &json!(**control.shown.load()))
}

async fn sessions(State(control): Relay, Query(query): Query<HashMap<String, String>>) -> Response {
    let number = |key: &str, default: usize| match query.get(key) {
        None => Ok(default),
        Some(text) => text
            .parse()
            .map_err(|_| format!("{key}={text:?} is no number: give one from 0")),
    };
    if let Some(text) = query.get("connection") {
        let Ok(connection) = u64::from_str_radix(text, 16) else {
            let error = format!("connection={text:?} is no connection id: give 16 hexadecimal digits");
            return reply(StatusCode::BAD_REQUEST, &json!({ "error": error }));
        };
        return match control.session(connection).await {
            Ok(page) if page.views.is_empty() => reply(
                StatusCode::NOT_FOUND,
                &json!({ "error": "no open session has this connection id" }),
            ),
            Ok(page) => reply(StatusCode::OK, &json!(page.views)),
            Err(error) => busy(error),
        };
    }
    let (offset, limit) = match (number("offset", 0), number("limit", PAGE)) {
        (Ok(offset), Ok(limit)) => (offset, limit.min(SESSIONS_PAGE_MAX)),
        (Err(error), _) | (_, Err(error)) => {
            return reply(StatusCode::BAD_REQUEST, &json!({ "error": error }));
        }
    };
    match control.roster(offset, limit).await {
        Ok(page) => {
            let end = offset.saturating_add(page.views.len());
            let next = (end < page.total && !page.views.is_empty()).then_some(end);
            let body =
                json!({ "total": page.total, "offset": offset, "next_offset": next, "sessions": page.views });
            reply(StatusCode::OK, &body)
        }
        Err(error) => busy(error),
    }
}

fn busy(error: ShardBusy) -> Response {
    reply(
        StatusCode::SERVICE_UNAVAILABLE,
        &json!({ "error": error.to_string() }),
    )
}

async fn drain(State(control): Relay) -> Response {
    let (sessions, spread_s) = (control.status.sessions(), control.settings.drain_spread_s);
    if control.drain() {
        tracing::info!(
            sessions,
            spread_s,
            "draining on request: no new sessions, every client is told to go"
        );
    }
    reply(
        StatusCode::ACCEPTED,
        &json!({ "draining": true, "sessions": sessions, "spread_s": spread_s }),
    )
}

async fn nothing() -> Response {
    let paths = "GET /metrics, /live, /ready, /config, /sessions; POST /drain";
    reply(
        StatusCode::NOT_FOUND,
        &json!({ "error": format!("there is nothing here; there are {paths}") }),
    )
}
