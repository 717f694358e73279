(() => {
  const live = document.getElementById("live"), word = document.getElementById("state");
  const pause = document.getElementById("pause"), html = document.documentElement;
  const staleAfter = 5000;
  let heard = Date.now(), held = null, paused = false;
  const clock = (at) => new Date(at).toISOString().slice(11, 19) + " UTC";
  const say = () => {
    const stale = Date.now() - heard > staleAfter;
    html.classList.toggle("stale", stale);
    const text = stale ? "✗ stale since " + clock(heard) : paused ? "‖ refresh paused" : "● live";
    if (word.textContent !== text) word.textContent = text;
  };
  const show = (body) => {
    const open = [...live.querySelectorAll("details[open]")].map((d) => d.id);
    const focus = document.activeElement && live.contains(document.activeElement) ? document.activeElement.id : "";
    live.innerHTML = body;
    for (const id of open) { const d = document.getElementById(id); if (d) d.open = true; }
    if (focus) { const e = document.getElementById(focus); if (e) e.focus(); }
  };
  const events = new EventSource("api/v1/page");
  const hear = () => { heard = Date.now(); say(); };
  events.addEventListener("tick", hear);
  events.addEventListener("page", (e) => { hear(); if (paused) held = e.data; else show(e.data); });
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
    const done = () => { button.textContent = "copied"; };
    const select = () => { getSelection().selectAllChildren(button.previousElementSibling); button.textContent = "selected"; };
    if (navigator.clipboard) navigator.clipboard.writeText(button.dataset.copy).then(done, select); else select();
  });
  say();
})();
