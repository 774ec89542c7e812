// The graph of a package: pan, zoom, and what is known of each part. Needs `shape` and `element` of page.js.
"use strict";

/** What can be seen of the drawing: a corner, and how many pixels one of its units takes. */
class Window {
  constructor(svg, canvas) {
    Object.assign(this, { svg, canvas, x: 0, y: 0, scale: 1 });
    this.content = this.measure();
    this.show();
    new ResizeObserver(() => this.resize()).observe(canvas);
  }

  /** The drawing without its heading, which the page has already. */
  measure() {
    const parts = [...this.svg.querySelectorAll("g")].map((one) => one.getBBox());
    const left = Math.min(...parts.map((one) => one.x)) - 16;
    const top = Math.min(...parts.map((one) => one.y)) - 30;
    for (const text of this.svg.querySelectorAll(":scope > text")) {
      if (Number(text.getAttribute("y")) < top) text.remove();
    }
    const [, , width, height] = this.svg.getAttribute("viewBox").split(" ").map(Number);
    return { left, top, width: width - left, height: height - top };
  }

  get fitting() {
    const { width, height } = this.content;
    return Math.min(this.canvas.clientWidth / width, this.canvas.clientHeight / height, 1.25);
  }

  /** As large as can be read: all of it if that is possible, else its left upper part. */
  show() {
    const { width, height } = this.content;
    const across = Math.min(this.canvas.clientWidth / width, 1);
    const readable = Math.max(across, 0.62);
    // On a narrow screen, room is left beside the graph from which the page can be scrolled.
    const most = window.innerHeight * (this.canvas.clientWidth < 640 ? 0.62 : 0.86);
    const room = Math.max(220, Math.min(height * readable, most));
    this.canvas.style.height = `${Math.round(room)}px`;
    this.width = this.canvas.clientWidth;
    this.scale = this.fitting >= 0.62 ? this.fitting : readable;
    this.x = this.content.left - Math.max(0, this.canvas.clientWidth / this.scale - width) / 2;
    this.y = this.content.top;
    this.apply();
  }

  fit() {
    this.scale = this.fitting;
    const { left, top, width, height } = this.content;
    this.x = left - (this.canvas.clientWidth / this.scale - width) / 2;
    this.y = top - (this.canvas.clientHeight / this.scale - height) / 2;
    this.apply();
  }

  resize() {
    if (this.canvas.clientWidth !== this.width) this.show();
  }

  /** Zoom by a factor, with one place of the canvas kept where it is. */
  zoom(factor, px = this.canvas.clientWidth / 2, py = this.canvas.clientHeight / 2) {
    const scale = Math.min(4, Math.max(this.fitting * 0.8, this.scale * factor));
    this.x += px / this.scale - px / scale;
    this.y += py / this.scale - py / scale;
    this.scale = scale;
    this.apply();
  }

  pan(dx, dy) {
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
    this.apply();
  }

  /** Move so that a part can be seen, left of `covered` pixels. */
  reveal(node, covered = 0) {
    const box = node.getBBox();
    const [width, height] = [(this.canvas.clientWidth - covered) / this.scale, this.canvas.clientHeight / this.scale];
    const pad = 16 / this.scale;
    this.x = Math.max(Math.min(this.x, box.x - pad), box.x + Math.min(box.width, width - 2 * pad) + pad - width);
    this.y = Math.max(Math.min(this.y, box.y - pad), box.y + Math.min(box.height, height - 2 * pad) + pad - height);
    this.apply();
  }

  apply() {
    const { left, top, width, height } = this.content;
    const [w, h] = [this.canvas.clientWidth / this.scale, this.canvas.clientHeight / this.scale];
    // A part of the drawing always stays in sight.
    this.x = Math.min(left + width - w * 0.2, Math.max(left - w * 0.8, this.x));
    this.y = Math.min(top + height - h * 0.2, Math.max(top - h * 0.8, this.y));
    this.svg.setAttribute("viewBox", `${this.x} ${this.y} ${w} ${h}`);
    this.canvas.classList.toggle("zoomed", this.scale > this.fitting * 1.02);
  }
}

/** Dragging, pinching and the wheel. */
class Hands {
  constructor(view, canvas) {
    Object.assign(this, { view, canvas, down: new Map(), moved: 0 });
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel", "pointerleave"]) {
      canvas.addEventListener(end, (event) => this.release(event));
    }
    // What ends a drag is no click.
    canvas.addEventListener("click", (event) => this.moved > 4 && event.stopPropagation(), { capture: true });
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  press(event) {
    if (event.button) return;
    if (!this.down.size) this.moved = 0;
    this.down.set(event.pointerId, { x: event.clientX, y: event.clientY });
  }

  move(event) {
    const before = this.down.get(event.pointerId);
    if (!before) return;
    const [dx, dy] = [event.clientX - before.x, event.clientY - before.y];
    const apart = () => {
      const [one, other] = [...this.down.values()];
      return Math.hypot(one.x - other.x, one.y - other.y);
    };
    const gap = this.down.size === 2 ? apart() : 0;
    this.down.set(event.pointerId, { x: event.clientX, y: event.clientY });
    this.moved += Math.abs(dx) + Math.abs(dy);
    if (this.down.size === 2) {
      const box = this.canvas.getBoundingClientRect();
      const [one, other] = [...this.down.values()];
      this.view.zoom(apart() / gap, (one.x + other.x) / 2 - box.left, (one.y + other.y) / 2 - box.top);
    }
    if (this.moved > 4) {
      this.canvas.classList.add("panning");
      if (!this.canvas.hasPointerCapture(event.pointerId)) this.canvas.setPointerCapture(event.pointerId);
      this.view.pan(dx / this.down.size, dy / this.down.size);
    }
  }

  release(event) {
    this.down.delete(event.pointerId);
    if (!this.down.size) this.canvas.classList.remove("panning");
  }

  wheel(event) {
    // The page is scrolled over the graph, too, until somebody works with it.
    if (!event.ctrlKey && !event.metaKey && !this.canvas.closest(".graph").matches(":focus-within")) return;
    event.preventDefault();
    const box = this.canvas.getBoundingClientRect();
    const lines = event.deltaMode === 1 ? 16 : 1;
    const factor = Math.exp(-Math.max(-120, Math.min(120, event.deltaY * lines)) / (event.ctrlKey ? 120 : 400));
    this.view.zoom(factor, event.clientX - box.left, event.clientY - box.top);
  }
}

/** What is known of the part that is chosen. */
class Details {
  constructor(panel, known, graph) {
    Object.assign(this, { panel, known, graph });
    panel.addEventListener("keydown", (event) => {
      if (event.key === "Escape") graph.choose(null);
    });
  }

  show(id) {
    const told = this.known[id];
    this.panel.hidden = !told;
    if (!told) return;
    const close = element("button", { type: "button", className: "button close", textContent: "×" });
    close.setAttribute("aria-label", "Close the details");
    close.addEventListener("click", () => this.graph.choose(null));
    const facts = element("dl", {});
    for (const [name, value] of told.facts ?? []) {
      facts.append(element("dt", { textContent: name }), element("dd", { textContent: value }));
    }
    const title = element("h3", { textContent: told.title });
    const what = element("div", { className: "small", textContent: told.what });
    this.panel.replaceChildren(close, title, what, facts);
    if (told.rows) this.panel.append(this.table(told));
    if (told.note) this.panel.append(element("p", { className: "small", textContent: told.note }));
    if (told.links) this.panel.append(this.links(told.links));
    this.panel.scrollTop = 0;
  }

  table({ columns, rows, title }) {
    const classes = columns.map((name) => (name.startsWith(">") ? "number" : ""));
    const cell = (name, text, index) => element(name, { textContent: text, className: classes[index] });
    const heads = columns.map((name, index) => cell("th", name.replace(/^>/, ""), index));
    for (const head of heads) head.scope = "col";
    const lines = rows.map((row) => element("tr", {}, ...row.map((text, index) => cell("td", text, index))));
    const table = element(
      "table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...lines),
    );
    const box = element("div", { className: "scroll", tabIndex: 0 }, table);
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", `Elements of ${title}`);
    return box;
  }

  links(links) {
    const items = links.map(([name, id]) => {
      const button = element("button", { type: "button", className: "link", textContent: name });
      button.addEventListener("click", () => this.graph.choose(id));
      return element("li", {}, button);
    });
    return element("ul", {}, ...items);
  }
}

/** The parts of the drawing that can be chosen, by mouse, by touch or by keyboard. */
class Graph {
  constructor(box) {
    this.box = box;
    this.canvas = box.querySelector(".canvas");
    const known = JSON.parse(box.querySelector("script").textContent);
    this.panel = box.querySelector(".details");
    this.details = new Details(this.panel, known, this);
    this.nodes = new Map();
    this.chosen = null;
    if (this.canvas) this.begin(known);
    for (const button of document.querySelectorAll("[data-show]")) {
      button.addEventListener("click", () => {
        this.cause = button;
        this.choose(button.dataset.show);
      });
    }
  }

  begin(known) {
    const svg = this.canvas.querySelector("svg");
    svg.removeAttribute("width");
    svg.removeAttribute("height");
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", "Graph of the package. Arrow keys move between its parts, Enter shows details.");
    for (const stage of svg.querySelectorAll("g.stage")) stage.after(...this.freed(stage));
    this.view = new Window(svg, this.canvas);
    const nodes = [...svg.querySelectorAll("g.input, g.output, g.state, g.stage, g.port")];
    const boxes = nodes.map((node) => node.getBBox()); // all are measured before any is changed: that is quick
    nodes.forEach((node, index) => this.prepare(node, boxes[index], known));
    this.hands = new Hands(this.view, this.canvas);
    this.nodes.values().next().value?.setAttribute("tabindex", "0");
    this.canvas.addEventListener("click", (event) => {
      const node = event.target.closest("[role=button]");
      this.cause = node;
      this.choose(node?.dataset.id ?? null);
    });
    svg.addEventListener("keydown", (event) => this.key(event));
    const zooms = { in: () => this.view.zoom(1.4), out: () => this.view.zoom(1 / 1.4), fit: () => this.view.fit() };
    for (const button of this.box.querySelectorAll("[data-zoom]")) {
      button.addEventListener("click", zooms[button.dataset.zoom]);
    }
  }

  /** The ports of a stage, taken out of it: a button may not hold others. */
  freed(stage) {
    const ports = [...stage.querySelectorAll("g.port")];
    for (const port of ports) port.dataset.stage = stage.dataset.name;
    return ports;
  }

  prepare(node, box, known) {
    const kind = node.getAttribute("class");
    const { name, stage, side } = node.dataset;
    const id = kind === "port" ? `port:${stage}:${side}:${name}` : `${kind}:${name}`;
    if (!known[id]) return;
    const pad = kind === "port" ? 4 : 0;
    const [width, height] = [box.width + 2 * pad, box.height + 2 * pad];
    node.append(shape("rect", { class: "hit", x: box.x - pad, y: box.y - pad, width, height, rx: 6 }));
    node.dataset.id = id;
    node.setAttribute("role", "button");
    node.setAttribute("tabindex", "-1");
    node.setAttribute("aria-label", `${name}, ${known[id].what}`);
    node.setAttribute("aria-expanded", "false");
    this.nodes.set(id, node);
  }

  /** Show what is known of a part; null closes, and gives the focus back. */
  choose(id) {
    const [before, after] = [this.nodes.get(this.chosen), this.nodes.get(id)];
    this.chosen = id;
    before?.classList.remove("chosen");
    before?.setAttribute("aria-expanded", "false");
    for (const wire of this.box.querySelectorAll(".wire.lit")) wire.classList.remove("lit");
    const open = !this.panel.hidden;
    this.details.show(id);
    if (id === null) {
      if (open) (before ?? this.cause)?.focus({ preventScroll: Boolean(before) });
      return;
    }
    const floats = getComputedStyle(this.panel).position === "absolute";
    if (after) {
      after.classList.add("chosen");
      after.setAttribute("aria-expanded", "true");
      this.light(id);
      this.enter(after);
      this.view.reveal(after, floats ? this.panel.offsetWidth : 0);
    }
    this.panel.focus({ preventScroll: true });
    const { top, bottom } = this.panel.getBoundingClientRect();
    if (!floats) this.panel.scrollIntoView({ block: "nearest" });
    else if (bottom < 160 || top > window.innerHeight - 80) this.box.scrollIntoView({ block: "start" });
  }

  /** Mark the wires that start or end at a part. */
  light(id) {
    const [kind, stage, , ...name] = id.split(":");
    const rest = id.slice(kind.length + 1);
    const meets = (end) => {
      if (kind === "stage") return end.startsWith(`${rest}/`);
      return end === (kind === "port" ? `${stage}/${name.join(":")}` : `${kind}s/${rest}`);
    };
    const side = kind === "port" ? id.split(":")[2] : null;
    for (const wire of this.box.querySelectorAll("g.wire")) {
      const { source, target } = wire.dataset;
      const lit = (side !== "input" && meets(source)) || (side !== "output" && meets(target));
      wire.classList.toggle("lit", lit);
    }
  }

  /** One part of the graph can be reached with Tab: the one that was last there. */
  enter(node) {
    for (const other of this.nodes.values()) other.setAttribute("tabindex", other === node ? "0" : "-1");
  }

  key(event) {
    const node = event.target.closest("[role=button]");
    const direction = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const acts = {
      Enter: () => this.choose(node?.dataset.id ?? null),
      " ": () => this.choose(node?.dataset.id ?? null),
      Escape: () => this.choose(null),
      "+": () => this.view.zoom(1.4),
      "-": () => this.view.zoom(1 / 1.4),
      0: () => this.view.fit(),
    };
    if (direction && node) {
      this.step(node, direction);
    } else if (acts[event.key]) {
      this.cause = node;
      acts[event.key]();
    } else {
      return;
    }
    event.preventDefault();
  }

  /** Move the focus to the nearest part in a direction: what lies straight ahead counts most. */
  step(from, [dx, dy]) {
    const centre = (node) => {
      const box = node.querySelector(".hit").getBBox();
      return [box.x + box.width / 2, box.y + box.height / 2];
    };
    const [x, y] = centre(from);
    let best = null;
    let least = Infinity;
    for (const node of this.nodes.values()) {
      if (node === from) continue;
      const [ax, ay] = centre(node);
      const ahead = (ax - x) * dx + (ay - y) * dy;
      const aside = Math.abs((ax - x) * dy) + Math.abs((ay - y) * dx);
      const cost = ahead + 3 * aside;
      if (ahead > 1 && cost < least) [best, least] = [node, cost];
    }
    if (!best) return;
    this.enter(best);
    best.focus({ preventScroll: true });
    this.view.reveal(best);
  }
}

const picture = document.getElementById("picture");
if (picture) new Graph(picture);
