//! A backend that also keeps agents alive, told to run one process a turn.

use std::sync::Arc;

use aetheel::agent::Descriptor;
use aetheel::turn::{Backend, Backends, Generation, Guest, GuestFailure};
use async_trait::async_trait;

/// All backends of another, as they are when the operator chose one-shot.
pub struct Once(pub Arc<dyn Backends>);

struct OnceOnly {
    inner: Arc<dyn Backend>,
    descriptor: Descriptor,
}

impl Backends for Once {
    fn get(&self, name: &str) -> Option<Arc<dyn Backend>> {
        let inner = self.0.get(name)?;
        let descriptor = inner.descriptor().as_one_shot();
        Some(Arc::new(OnceOnly { inner, descriptor }))
    }

    fn names(&self) -> Vec<String> {
        self.0.names()
    }
}

#[async_trait]
impl Backend for OnceOnly {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn generation(&self) -> &Generation {
        self.inner.generation()
    }

    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
        self.inner.open().await
    }
}
