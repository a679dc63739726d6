//! Stands for `cluster` in a build without it. No value of these types exists.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;

use crate::startup::StartRefusal;
use crate::startup::cluster::Cluster;
use aetheel_dispatch::{ClusterChat, ClusterMail, Dispatcher, LaneTransfer, Recovery, Router};
use aetheel_process::holder::HeldLauncher;
use aetheel_runtime::lease::Lease;
use aetheel_store::workspace::Workspace;
use aetheel_turn::Backends;

pub(super) enum ClusterNode {}

#[derive(Clone)]
pub(super) enum LeaderFile {}

#[expect(dead_code, reason = "no node of this build reads the fields")]
pub(super) struct NodeParts<'a> {
    pub(super) dispatcher: &'a Dispatcher,
    pub(super) workspace: &'a Workspace,
    pub(super) chat: Arc<dyn ClusterChat>,
    pub(super) backends: Arc<dyn Backends>,
    pub(super) slots: usize,
}

pub(super) fn start_node(
    cluster: Cluster,
    _held: Option<&HeldLauncher>,
) -> Result<ClusterNode, StartRefusal> {
    match cluster {}
}

impl ClusterNode {
    pub(super) async fn recover(&mut self, _: &Recovery, _: &LaneTransfer) -> bool {
        match *self {}
    }

    pub(super) fn lease(&self) -> Lease {
        match *self {}
    }

    pub(super) fn router(&self, _: &Workspace) -> Arc<dyn Router> {
        match *self {}
    }

    pub(super) fn mail(&self) -> Arc<dyn ClusterMail> {
        match *self {}
    }

    pub(super) fn serve(&mut self, _: NodeParts<'_>) {
        match *self {}
    }

    pub(super) fn leadership(&self) -> watch::Receiver<bool> {
        match *self {}
    }

    pub(super) fn leader_file(&self, _: &Path) -> LeaderFile {
        match *self {}
    }

    pub(super) async fn stop_intake(&mut self) {
        match *self {}
    }

    pub(super) async fn leave(self, _: &Path) {
        match self {}
    }
}

impl LeaderFile {
    pub(super) async fn take_over(&self) {
        match *self {}
    }

    pub(super) async fn mirror(self) {
        match self {}
    }
}
