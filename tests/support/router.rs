//! The router of a node that serves all lanes that it gets.

use std::sync::Mutex;

use aetheel_dispatch::{ClusterBudgets, FileNeighbours, PromptRefusal, Router};
use aetheel_model::event::NewEvent;
use aetheel_model::id::ChannelId;
use async_trait::async_trait;

#[derive(Default)]
pub struct ServesAll {
    /// Adds up budgets with the other nodes.
    budgets: Option<Box<dyn ClusterBudgets>>,
    /// The news about files that no other node has got yet, and that node.
    news: Mutex<(Vec<String>, Option<FileNeighbours>)>,
}

impl ServesAll {
    pub fn with_budgets(budgets: impl ClusterBudgets + 'static) -> Self {
        Self { budgets: Some(Box::new(budgets)), ..Self::default() }
    }

    /// Passes the news about files to another node, also those so far.
    pub fn connect(&self, neighbours: FileNeighbours) {
        let mut news = self.news.lock().unwrap();
        news.0.drain(..).for_each(|text| assert!(neighbours.receive(&text)));
        news.1 = Some(neighbours);
    }
}

#[async_trait]
impl Router for ServesAll {
    fn is_remote(&self, _: &NewEvent) -> bool {
        false
    }

    async fn serves(&self, _: ChannelId) -> bool {
        true
    }

    async fn send(&self, _: NewEvent) -> Result<(), PromptRefusal> {
        Err(PromptRefusal::NotSaved)
    }

    fn cluster_budgets(&self) -> Option<&dyn ClusterBudgets> {
        self.budgets.as_deref()
    }

    fn share_file_news(&self, text: String) {
        let mut news = self.news.lock().unwrap();
        match &news.1 {
            Some(neighbours) => assert!(neighbours.receive(&text)),
            None => news.0.push(text),
        }
    }
}
