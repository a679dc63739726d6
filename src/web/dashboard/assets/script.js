// Follows what changes and keeps what somebody is writing. Every page works without it.
"use strict";

(() => {
  const local = (root) => {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (!Number.isNaN(at.getTime())) {
        time.textContent = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
      }
    }
  };

  // What was written, chosen and focused, by the ids of fields; and what turns have said.
  const keep = (root) => {
    const kept = { fields: new Map(), live: new Map(), focus: null };
    for (const field of root.querySelectorAll("input[id], textarea[id]")) {
      kept.fields.set(field.id, [field.value, field.checked]);
    }
    for (const live of root.querySelectorAll(".live[id]")) {
      kept.live.set(live.id, live);
    }
    const active = document.activeElement;
    if (active && root.contains(active)) {
      kept.focus = active.id || null;
      if (active.tagName === "TEXTAREA") {
        kept.at = [active.selectionStart, active.selectionEnd];
      }
    }
    return kept;
  };

  const give = (root, kept) => {
    for (const [id, [value, checked]] of kept.fields) {
      const field = document.getElementById(id);
      if (field && root.contains(field)) {
        if (field.type === "radio" || field.type === "checkbox") {
          field.checked = checked;
        } else {
          field.value = value;
        }
      }
    }
    for (const [id, live] of kept.live) {
      const place = document.getElementById(id);
      if (place && root.contains(place)) {
        place.replaceWith(live);
      }
    }
    const focus = kept.focus && document.getElementById(kept.focus);
    if (focus) {
      focus.focus({ preventScroll: true });
      if (kept.at) {
        focus.setSelectionRange(kept.at[0], kept.at[1]);
      }
    }
  };

  const follow = (cards) => {
    const events = new EventSource(cards.dataset.live);
    events.addEventListener("cards", (event) => {
      const kept = keep(cards);
      cards.innerHTML = JSON.parse(event.data).html;
      give(cards, kept);
      local(cards);
    });
    events.addEventListener("turn", (event) => {
      const { turn, html } = JSON.parse(event.data);
      const live = document.getElementById(`turn-${turn}`);
      if (live) {
        live.innerHTML = html;
        const text = live.querySelector(".text");
        if (text) {
          text.scrollTop = text.scrollHeight;
        }
      }
    });
    events.addEventListener("over", () => {
      events.close();
      location.reload();
    });
    // A page that nobody looks at follows nothing.
    const seen = () => {
      if (document.hidden) {
        events.close();
      } else {
        document.removeEventListener("visibilitychange", seen);
        follow(cards);
      }
    };
    document.addEventListener("visibilitychange", seen);
  };

  // Steps of a recorded turn: arrows go where the links lead.
  const steps = () => {
    const at = document.getElementById("at");
    const step = document.getElementById("step");
    if (!at || !step) {
      return;
    }
    step.addEventListener("input", () => {
      at.textContent = step.value;
    });
    document.addEventListener("keydown", (event) => {
      const rel = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
      const writes = event.target.closest("input, select, textarea, pre");
      if (rel && !writes && !event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
        const link = document.querySelector(`.steps a[rel="${rel}"]`);
        if (link) {
          event.preventDefault();
          link.click();
        }
      }
    });
  };

  local(document);
  steps();
  const again = document.querySelector("[data-again]");
  if (again) {
    setTimeout(() => location.reload(), Number(again.dataset.again));
  }
  const cards = document.querySelector("[data-live]");
  if (cards && "EventSource" in window) {
    follow(cards);
  }
})();
