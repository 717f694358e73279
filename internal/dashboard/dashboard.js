(() => {
  const live = document.getElementById("live"), word = document.getElementById("state"), time = document.getElementById("clock");
  const pause = document.getElementById("pause"), html = document.documentElement;
  const staleAfter = 5000, again = 5000;
  let title = document.title, heard = Date.now(), held = null, paused = false;
  const clock = (at) => new Date(at).toISOString().slice(11, 19) + " UTC";
  const write = (e, text) => { if (e.textContent !== text) e.textContent = text; };
  const say = () => {
    const stale = Date.now() - heard > staleAfter;
    html.classList.toggle("stale", stale);
    write(word, stale ? "✗ stale since " + clock(heard) : paused ? "‖ refresh paused" : "● live");
    write(time, stale ? "" : clock(heard));
    document.title = (stale ? "✗ stale: " : "") + title;
  };
  // Only what differs is touched, so that focus, selection, scrolling and what is unfolded stay as they are.
  const become = (old, now) => {
    if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName || old.id !== now.id) { old.replaceWith(now); return; }
    if (old.nodeType !== Node.ELEMENT_NODE) { if (old.data !== now.data) old.data = now.data; return; }
    for (const { name } of [...old.attributes]) if (name !== "open" && !now.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of now.attributes) if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
    children(old, now);
  };
  const children = (old, now) => {
    const ids = new Set([...now.children].map((n) => n.id));
    let at = old.firstChild;
    const next = () => { const n = at; at = at.nextSibling; return n; };
    for (const n of [...now.childNodes]) {
      while (at && at.id && !ids.has(at.id)) next().remove();
      const same = n.id && [...old.children].find((o) => o.id === n.id);
      if (same) while (at && !at.id) next().remove();
      if (same && same === at) become(next(), n);
      else if (same) { old.insertBefore(same, at); become(same, n); }
      else if (at && !at.id && !n.id) become(next(), n);
      else old.insertBefore(n, at);
    }
    while (at) next().remove();
  };
  const show = (body) => {
    const page = document.createElement("template");
    page.innerHTML = body;
    children(live, page.content);
    title = live.querySelector("[data-title]")?.dataset.title ?? title;
    say();
  };
  const hear = () => { heard = Date.now(); say(); };
  const listen = () => {
    const events = new EventSource("api/v1/page");
    events.addEventListener("tick", hear);
    events.addEventListener("page", (e) => { hear(); if (paused) held = e.data; else show(e.data); });
    // Another program serves it now, with another script. One behind a balancer may serve in turns with this one.
    events.addEventListener("build", (e) => { if (e.data !== html.dataset.build && performance.now() > 60000) location.reload(); });
    // A browser comes back by itself, but not after an answer that is none.
    events.addEventListener("error", () => { if (events.readyState === EventSource.CLOSED) setTimeout(listen, again); });
  };
  listen();
  setInterval(say, 1000);
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    if (!paused && held !== null) { show(held); held = null; }
    say();
  });
  live.addEventListener("click", (e) => {
    const button = e.target.closest("button[data-copy]");
    if (!button) return;
    const tell = (done) => { button.textContent = done; button.setAttribute("aria-label", done + " " + button.dataset.copy); };
    const select = () => { getSelection().selectAllChildren(button.previousElementSibling); tell("selected"); };
    if (navigator.clipboard) navigator.clipboard.writeText(button.dataset.copy).then(() => tell("copied"), select); else select();
  });
  say();
})();
