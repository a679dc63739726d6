// Wakes when an agent asks, and says what waits for whoever is signed in here. A push says nothing by itself.
"use strict";

const waiting = async () => {
  try {
    const answer = await fetch("/push/waiting", { cache: "no-store", redirect: "error" });
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
};

const show = async () => {
  const found = await waiting();
  const [first] = found ? found.waiting : [];
  const text = (asked) => `${asked.place}: ${asked.title}`;
  let title = "An agent may have a question";
  let body = "Open the dashboard.";
  if (first) {
    title = found.count > 1 ? `${found.count} questions of agents wait for you` : "An agent asks";
    body = found.waiting.map(text).join("\n");
  }
  const path = first ? `/#question-${first.id}` : "/";
  await self.registration.showNotification(title, {
    body, tag: "question", renotify: true, icon: "/icon.svg", data: path,
  });
};

const open = async (path) => {
  const pages = await self.clients.matchAll({ type: "window" });
  const page = pages.find((page) => new URL(page.url).pathname === "/");
  if (!page) {
    return self.clients.openWindow(path);
  }
  // In this order: a click lets one page come to the front, and going elsewhere uses that up.
  const focused = await page.focus();
  return focused.navigate(path);
};

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("push", (event) => event.waitUntil(show()));
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data));
});
