//! A launcher whose agents outlive the gateway, like the holder, but in this process. A shelf
//! serves one gateway process after the other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use aetheel_turn::{
    AgentProcess, Launch, LaunchError, Launcher, ProcessCommand, ProcessEvent, SurvivingProcess,
    Survivor,
};
use async_trait::async_trait;
use tokio::sync::mpsc;

use super::scripted::ScriptedLauncher;

/// More events than any agent here produces.
const ROOM: usize = 4_096;

/// A shelf. Clones share its agents.
#[derive(Clone)]
pub struct Shelf {
    agents: Arc<ScriptedLauncher>,
    /// Runs the agents, independently of the gateway's runtime.
    runtime: Arc<tokio::runtime::Runtime>,
    runs: Arc<Mutex<BTreeMap<String, Run>>>,
}

#[derive(Default)]
struct Run {
    keepsake: Vec<u8>,
    asked: u32,
    processes: BTreeMap<u32, Held>,
}

struct Held {
    /// The output of the agent, one line per event, and its exit.
    events: Vec<ProcessEvent>,
    recorded: u64,
    commands: u64,
    /// Commands to the agent.
    agent: mpsc::UnboundedSender<ProcessCommand>,
    /// Events to the gateway process that has adopted it.
    gateway: Option<mpsc::Sender<ProcessEvent>>,
}

impl Run {
    fn copy(&self) -> Self {
        let held = |(proc, held): (&u32, &Held)| {
            let Held { events, recorded, commands, agent, .. } = held;
            let (events, agent) = (events.clone(), agent.clone());
            (*proc, Held { events, recorded: *recorded, commands: *commands, agent, gateway: None })
        };
        Self {
            keepsake: self.keepsake.clone(),
            asked: 0,
            processes: self.processes.iter().map(held).collect(),
        }
    }
}

impl Shelf {
    pub fn new(agents: Arc<ScriptedLauncher>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        Self { agents, runtime: Arc::new(runtime), runs: Arc::default() }
    }

    /// Returns the runs that are held.
    pub fn held(&self) -> Vec<String> {
        self.runs.lock().unwrap().keys().cloned().collect()
    }

    /// Forgets that any line was recorded, as if the gateway had died before.
    pub fn forget_recorded(&self) {
        for run in self.runs.lock().unwrap().values_mut() {
            run.processes.values_mut().for_each(|held| held.recorded = 0);
        }
    }

    /// Waits until all agents have ended.
    pub fn wait_for_exits(&self) {
        let ended = |run: &Run| {
            run.processes
                .values()
                .all(|held| matches!(held.events.last(), Some(ProcessEvent::Exited { .. })))
        };
        while !self.runs.lock().unwrap().values().all(ended) {
            std::thread::yield_now();
        }
    }

    /// Creates the private folders of all runs again, after a gateway process removed them.
    pub fn make_folders(&self) {
        for run in self.runs.lock().unwrap().values() {
            let kept: serde_json::Value = serde_json::from_slice(&run.keepsake).unwrap();
            let folder = std::path::Path::new(kept["folder"].as_str().unwrap());
            std::fs::create_dir_all(folder.join("tmp")).unwrap();
        }
    }

    /// Returns a second shelf with the same agents in their current state. The shelves are
    /// independent afterwards. New output of running agents appears only on this one.
    pub fn copy(&self) -> Self {
        let runs = self.runs.lock().unwrap();
        let copied = runs.iter().map(|(name, run)| (name.clone(), run.copy())).collect();
        Self { runs: Arc::new(Mutex::new(copied)), ..self.clone() }
    }

    fn attach(&self, run: &str, proc: u32, received: u64) -> AgentProcess {
        let mut runs = self.runs.lock().unwrap();
        let held = runs.get_mut(run).unwrap().processes.get_mut(&proc).unwrap();
        let (gateway, events) = mpsc::channel(ROOM);
        for event in held.events.iter().skip(received as usize) {
            gateway.try_send(event.clone()).unwrap();
        }
        held.gateway = Some(gateway);
        let (commands, mut receiver) = mpsc::unbounded_channel();
        let (runs, run) = (Arc::clone(&self.runs), run.to_owned());
        self.runtime.spawn(async move {
            while let Some(command) = receiver.recv().await {
                let mut runs = runs.lock().unwrap();
                let Some(run) = runs.get_mut(&run) else { return };
                let Some(held) = run.processes.get_mut(&proc) else { return };
                match command {
                    ProcessCommand::Recorded(lines) => {
                        held.recorded = held.recorded.max(lines);
                        run.asked = 0;
                    }
                    command => {
                        held.commands += 1;
                        let _ = held.agent.send(command);
                    }
                }
            }
        });
        AgentProcess { events, commands, pid: None, held: true }
    }
}

#[async_trait]
impl Launcher for Shelf {
    async fn launch(&self, launch: Launch) -> Result<AgentProcess, LaunchError> {
        let (run, proc, agents) = (launch.run.clone(), launch.proc, Arc::clone(&self.agents));
        let launched = self.runtime.spawn(async move { agents.launch(launch).await });
        let AgentProcess { mut events, commands, .. } = launched.await.unwrap()?;
        let held =
            Held { events: vec![], recorded: 0, commands: 0, agent: commands, gateway: None };
        self.runs.lock().unwrap().entry(run.clone()).or_default().processes.insert(proc, held);
        let process = self.attach(&run, proc, 0);
        let runs = Arc::clone(&self.runs);
        self.runtime.spawn(async move {
            while let Some(event) = events.recv().await {
                let mut runs = runs.lock().unwrap();
                let Some(run) = runs.get_mut(&run) else { return };
                let Some(held) = run.processes.get_mut(&proc) else { return };
                let single = match event {
                    ProcessEvent::Lines(lines) => {
                        lines.into_iter().map(|line| ProcessEvent::Lines(vec![line])).collect()
                    }
                    other => vec![other],
                };
                for event in single {
                    if let Some(gateway) = &held.gateway {
                        // The gateway process may have ended.
                        let _ = gateway.try_send(event.clone());
                    }
                    held.events.push(event);
                }
            }
        });
        Ok(process)
    }

    fn holds(&self) -> bool {
        true
    }

    async fn survivors(&self) -> Vec<Survivor> {
        let mut runs = self.runs.lock().unwrap();
        let survivor = |(name, run): (&String, &mut Run)| {
            run.asked += 1;
            let process = |(proc, held): (&u32, &Held)| SurvivingProcess {
                proc: *proc,
                commands: held.commands,
                recorded: held.recorded,
            };
            Survivor {
                run: name.clone(),
                keepsake: run.keepsake.clone(),
                attach_count: run.asked,
                processes: run.processes.iter().map(process).collect(),
            }
        };
        runs.iter_mut().map(survivor).collect()
    }

    async fn adopt(
        &self,
        run: &str,
        proc: u32,
        received: u64,
    ) -> Result<AgentProcess, LaunchError> {
        Ok(self.attach(run, proc, received))
    }

    fn store_keepsake(&self, run: &str, keepsake: Vec<u8>) {
        self.runs.lock().unwrap().entry(run.to_owned()).or_default().keepsake = keepsake;
    }

    fn end(&self, run: &str) {
        // This also closes the agent's commands.
        self.runs.lock().unwrap().remove(run);
    }
}
