// Updates live content without losing the user's input. Every page works without this script.
"use strict";

(() => {
  const LATER = 10_000;
  const MOMENT = 2_000;
  // A browser opens at most six connections to a host for all its windows. Streams use half of
  // them; further pages poll.
  const STREAMS = 3;
  const POLL = 3_000;

  // Takes one of the browser's slots for a stream. Resolves to a function that frees it, or to null
  // if no slot is free.
  const place = async () => {
    if (!navigator.locks) {
      return () => {};
    }
    for (let number = 0; number < STREAMS; number++) {
      const release = await new Promise((resolve) => {
        navigator.locks
          .request(`aetheel-stream-${number}`, { ifAvailable: true }, (lock) => {
            if (!lock) {
              resolve(null);
              return undefined;
            }
            return new Promise((free) => resolve(free));
          })
          .catch(() => resolve(null));
      });
      if (release) {
        return release;
      }
    }
    return null;
  };

  const local = (root) => {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (!Number.isNaN(at.getTime())) {
        time.textContent = "day" in time.dataset
          ? at.toLocaleString([], { dateStyle: "medium", timeStyle: "short" })
          : at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
      }
    }
  };

  const end = (text) => {
    text.scrollTop = text.scrollHeight;
  };

  // Returns whether two nodes are versions of the same node.
  const same = (old, fresh) => old.nodeName === fresh.nodeName && (old.id || "") === (fresh.id || "");

  // Updates `old` to match `fresh`. Nodes that are in both are kept, with their focus, input,
  // selection, open details and scroll position.
  const become = (old, fresh) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (fresh.data.startsWith(old.data)) {
        old.appendData(fresh.data.slice(old.data.length));
      } else {
        old.data = fresh.data;
      }
      return;
    }
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && name !== "open") {
        old.removeAttribute(name);
      }
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) {
        old.setAttribute(name, value);
      }
    }
    // The text of a turn is updated separately.
    if (!old.classList.contains("live") || fresh.firstChild) {
      fill(old, fresh);
    }
  };

  const fill = (old, fresh) => {
    const wanted = [...fresh.childNodes];
    for (const node of [...old.childNodes]) {
      if (node.id && !wanted.some((next) => same(node, next))) {
        node.remove();
      }
    }
    let at = old.firstChild;
    for (const next of wanted) {
      const found = at && same(at, next) ? at : next.id && [...old.children].find((node) => same(node, next));
      if (!found) {
        old.insertBefore(next, at);
        continue;
      }
      if (found !== at) {
        old.insertBefore(found, at);
      }
      become(found, next);
      at = found.nextSibling;
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  };

  const show = (root, html) => {
    const fresh = root.cloneNode(false);
    fresh.innerHTML = html;
    local(fresh);
    const active = document.activeElement;
    fill(root, fresh);
    // The node was moved.
    if (active !== document.activeElement && active.isConnected) {
      active.focus({ preventScroll: true });
    }
  };

  const follow = (cards) => {
    const news = document.createElement("p");
    news.className = "said";
    news.setAttribute("role", "status");
    cards.before(news);
    // The current stream or poll; replaced when the page is hidden and shown again.
    let current = null;

    const stop = () => {
      const { later, events, release } = current;
      current = null;
      clearTimeout(later);
      events?.close();
      release?.();
    };

    const cardsAre = (html) => {
      const questions = () => [...cards.querySelectorAll(".question")].map((question) => question.id);
      const before = questions();
      const written = [...cards.querySelectorAll("textarea")].filter((field) => field.value.trim());
      show(cards, html);
      const unsent = written.find((field) => !field.isConnected);
      if (unsent) {
        news.textContent = `That turn is over. What you wrote was not sent: ${unsent.value}`;
      } else if (questions().some((id) => !before.includes(id))) {
        news.textContent = "An agent asks something.";
      }
    };

    const turnSays = ({ turn, html }) => {
      const live = document.getElementById(`turn-${turn}`);
      if (live) {
        // Does not scroll if the user has scrolled up.
        const text = live.querySelector(".text");
        const follows = !text || text.scrollTop + text.clientHeight >= text.scrollHeight - 8;
        show(live, html);
        if (follows) {
          live.querySelectorAll(".text").forEach(end);
        }
      }
    };

    const over = () => {
      // If a form has just been sent, such as for signing out, its response is shown instead.
      if (!sent.size) {
        location.reload();
      }
    };

    const away = "The gateway does not answer. This page shows what was last known, and tries again.";
    const still = "This page is not updating at the moment, and tries again.";

    const stream = (mine) => {
      const events = new EventSource(cards.dataset.live);
      mine.events = events;
      events.addEventListener("open", () => {
        news.textContent = "";
      });
      events.addEventListener("error", async () => {
        if (events.readyState !== EventSource.CLOSED) {
          news.textContent = away;
          return;
        }
        // The stream was refused, but the event source does not expose the reason.
        const answer = await fetch(cards.dataset.live, { method: "HEAD" }).catch(() => null);
        if (answer && (answer.status === 401 || answer.status === 403)) {
          location.reload();
        } else if (current === mine) {
          news.textContent = still;
          mine.later = setTimeout(() => stream(mine), LATER);
        }
      });
      events.addEventListener("cards", (event) => cardsAre(JSON.parse(event.data).html));
      events.addEventListener("turn", (event) => turnSays(JSON.parse(event.data)));
      for (const name of ["over", "ended"]) {
        events.addEventListener(name, () => {
          events.close();
          over();
        });
      }
    };

    // Requests once everything that a stream would have sent by now.
    const ask = async () => {
      const answer = await fetch(cards.dataset.once, { cache: "no-store" }).catch(() => null);
      if (!answer) {
        return away;
      }
      if (answer.status === 401 || answer.status === 403) {
        location.reload();
      }
      const now = answer.ok ? await answer.json().catch(() => null) : null;
      if (!now) {
        return still;
      }
      if (now.ended) {
        over();
        return "";
      }
      if (now.cards !== null) {
        cardsAre(now.cards);
      }
      now.turns.forEach(turnSays);
      return "";
    };

    const follows = async (mine) => {
      mine.release = await place();
      if (current !== mine) {
        mine.release?.();
      } else if (mine.release) {
        stream(mine);
      } else {
        const says = await ask();
        if (current === mine) {
          if (says || news.textContent === away || news.textContent === still) {
            news.textContent = says;
          }
          mine.later = setTimeout(() => follows(mine), POLL);
        }
      }
    };

    const begin = () => {
      current = { later: 0, events: null, release: null };
      follows(current);
    };

    // A hidden page has no stream.
    document.addEventListener("visibilitychange", () => {
      if (current) {
        stop();
      }
      if (!document.hidden) {
        begin();
      }
    });
    if (!document.hidden) {
      begin();
    }
  };

  // Steps of a recorded turn: the arrow keys follow the links.
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

  // A double click sends a form once.
  const sent = new Set();
  document.addEventListener("submit", (event) => {
    if (sent.has(event.target)) {
      event.preventDefault();
    }
    sent.add(event.target);
    setTimeout(() => sent.delete(event.target), MOMENT);
  });

  local(document);
  document.querySelectorAll(".live .text").forEach(end);
  steps();
  const cards = document.querySelector("[data-live]");
  if (cards && "EventSource" in window) {
    follow(cards);
  }
})();
