// The observer `stats`: counts turns, failures, tools, questions and costs for each day, lane and
// backend. It writes the counts of a day when the first event of another day arrives, and when it is
// replaced or the gateway ends. Lines of one day, lane and backend add up.

/** Maximum number of rows. Beyond it, the rows so far are written early. */
const MAX_ROWS = 1000;

let day = "";
let rows = new Map();

function row(event) {
  const key = `${event.lane}\n${event.backend}`;
  let found = rows.get(key);
  if (found === undefined) {
    found = {
      day, lane: event.lane, backend: event.backend,
      turns: 0, failed: 0, "took-ms": 0, input: 0, output: 0, "cost-usd": 0,
      questions: 0, allowed: 0, denied: 0, tools: {},
    };
    rows.set(key, found);
  }
  return found;
}

function add(event) {
  const counts = row(event);
  const { tag, val } = event.kind;
  switch (tag) {
    case "tool-ended":
      break;
    case "tool-begun":
      counts.tools[val.kind] = (counts.tools[val.kind] ?? 0) + 1;
      break;
    case "question-opened":
      counts.questions += 1;
      break;
    case "policy-decided":
      if (val.effect === "allow") counts.allowed += 1;
      if (val.effect === "deny") counts.denied += 1;
      break;
    case "turn-ended":
      counts.turns += 1;
      if (val.ending !== "completed") counts.failed += 1;
      counts["took-ms"] += Math.round(val.tookMs);
      counts.input += val.usage?.input ?? 0;
      counts.output += val.usage?.output ?? 0;
      counts["cost-usd"] += val.usage?.costUsd ?? 0;
      break;
  }
}

function written() {
  const lines = [...rows.values()].map((counts) => JSON.stringify(counts));
  rows = new Map();
  return lines;
}

export const observer = {
  describe: () =>
    JSON.stringify({
      name: "stats",
      version: "0.1.0",
      description: "Counts turns, failures, tools, questions and costs by day, lane and backend",
    }),

  configure(text) {
    if (text.trim() !== "") throw "this observer has no options";
  },

  observe(events) {
    const lines = [];
    for (const event of events) {
      const today = new Date(event.atMs).toISOString().slice(0, 10);
      if (today !== day || rows.size >= MAX_ROWS) {
        lines.push(...written());
        day = today;
      }
      add(event);
    }
    return lines;
  },

  finish: written,
};
