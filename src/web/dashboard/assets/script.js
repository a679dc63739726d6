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

  // Eight bytes of a text's SHA-256: how the page knows a device without holding its address.
  const mark = async (text) => {
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
    const bytes = new Uint8Array(digest).slice(0, 8);
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  };

  const key = (text) => {
    const plain = text.replaceAll("-", "+").replaceAll("_", "/");
    return Uint8Array.from(atob(plain), (letter) => letter.charCodeAt(0));
  };

  // Being told on this device when an agent asks.
  const notify = async (push) => {
    const says = document.getElementById("push-says");
    const [on, off] = ["push-on", "push-off"].map((id) => document.getElementById(id));
    if (!window.isSecureContext) {
      says.textContent = "Browsers can tell you when an agent asks only on pages with TLS, and on localhost.";
      return;
    }
    if (!("serviceWorker" in navigator && "PushManager" in window && "Notification" in window)) {
      says.textContent = "This browser cannot tell you when an agent asks.";
      return;
    }
    const found = await navigator.serviceWorker.getRegistration();
    const now = found && (await found.pushManager.getSubscription());
    if (now && push.dataset.devices.split(" ").includes(await mark(now.endpoint))) {
      says.textContent = "This device tells you when an agent asks.";
      off.querySelector("button").textContent = "Do not tell me on this device any more";
      off.addEventListener("submit", async (event) => {
        event.preventDefault();
        off.elements.endpoint.value = now.endpoint;
        await now.unsubscribe().catch(() => {});
        off.submit();
      });
      return;
    }
    if (Notification.permission === "denied") {
      says.textContent = "Your browser shows no notifications of this page, so it cannot tell you when an agent asks.";
      return;
    }
    says.textContent = "";
    on.hidden = false;
    on.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        if ((await Notification.requestPermission()) !== "granted") {
          says.textContent = "Your browser shows no notifications of this page.";
          return;
        }
        await navigator.serviceWorker.register("/worker.js");
        const worker = await navigator.serviceWorker.ready;
        const old = await worker.pushManager.getSubscription();
        if (old) {
          await old.unsubscribe();
        }
        const made = await worker.pushManager.subscribe({
          userVisibleOnly: true, applicationServerKey: key(push.dataset.key),
        });
        on.elements.endpoint.value = made.endpoint;
        on.submit();
      } catch (fault) {
        says.textContent = `Your browser did not do it: ${fault.message}`;
      }
    });
  };

  local(document);
  const push = document.getElementById("push");
  if (push) {
    notify(push).catch(() => {});
  }
  const cards = document.querySelector("[data-live]");
  if (cards && "EventSource" in window) {
    follow(cards);
  }
})();
