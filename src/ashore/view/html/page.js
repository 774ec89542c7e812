// The theme, and plots that are drawn when they come into sight. Text reaches the page only through textContent.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

/** An SVG element with attributes. */
function shape(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** An HTML element with properties. */
function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** A number as people write it: five digits, and an exponent only where it is needed. */
function spoken(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e7) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(Number(value.toPrecision(5)));
}

// --- theme -----------------------------------------------------------------------------------------------------------

const theme = {
  system: window.matchMedia("(prefers-color-scheme: dark)"),
  button: document.getElementById("theme"),

  /** What was chosen before; nothing where the browser keeps nothing. */
  kept() {
    try {
      return localStorage.getItem("ashore-theme");
    } catch {
      return null;
    }
  },

  show(name) {
    document.documentElement.dataset.theme = name;
    const other = name === "dark" ? "light" : "dark";
    this.button.textContent = other[0].toUpperCase() + other.slice(1);
    this.button.setAttribute("aria-label", `Switch to the ${other} theme`);
  },

  begin() {
    this.show(this.kept() ?? (this.system.matches ? "dark" : "light"));
    this.system.addEventListener("change", (event) => {
      if (!this.kept()) this.show(event.matches ? "dark" : "light");
    });
    this.button.hidden = false;
    this.button.addEventListener("click", () => {
      const chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      this.show(chosen);
      try {
        localStorage.setItem("ashore-theme", chosen);
      } catch {
        // It lasts as long as the page is open.
      }
    });
  },
};

// --- axes ------------------------------------------------------------------------------------------------------------

/** Round numbers that cover a range: about `count` of them. */
function ticks(low, high, count) {
  if (low === high) return [low];
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) found.push(at * step);
  return found;
}

/** Powers of ten within a range, with twos and fives between where there are few. */
function logTicks(low, high) {
  const found = [];
  const decades = Math.log10(high / low);
  const factors = decades < 1.5 ? [1, 2, 5] : decades < 3 ? [1, 3] : [1];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    found.push(...factors.map((factor) => factor * 10 ** power).filter((one) => one >= low && one <= high));
  }
  return found;
}

/** The least and the largest of some numbers, a little apart where they are the same; [0, 1] of none. */
function extent(numbers) {
  let low = Infinity;
  let high = -Infinity;
  for (const one of numbers) {
    if (one === null) continue;
    if (one < low) low = one;
    if (one > high) high = one;
  }
  if (low > high) return [0, 1];
  if (low === high) return [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1];
  return [low, high];
}

/** A range with a little air at both ends, so that no line runs along the edge. */
function widened([low, high]) {
  const air = (high - low) * 0.04;
  return [low - air, high + air];
}

/** A field of a plot: where values of x and y lie. */
function field(box, [xLow, xHigh], [yLow, yHigh], log = false) {
  const along = log ? (x) => Math.log(x / xLow) / Math.log(xHigh / xLow) : (x) => (x - xLow) / (xHigh - xLow || 1);
  return {
    ...box,
    x: (value) => box.left + along(value) * box.width,
    y: (value) => box.top + box.height * (1 - (value - yLow) / (yHigh - yLow)),
  };
}

/** The y axis of a field: grid lines with their numbers, and what they are. */
function drawY(svg, place, [low, high], label) {
  for (const at of ticks(low, high, place.height / 42)) {
    const y = place.y(at);
    svg.append(shape("path", { class: "grid", d: `M${place.left},${y}h${place.width}` }));
    svg.append(shape("text", { x: place.left - 6, y: y + 4, "text-anchor": "end" }, spoken(at)));
  }
  if (label) svg.append(shape("text", { x: place.left, y: place.top - 7 }, label));
}

/** The x axis below a field. */
function drawX(svg, place, at, label) {
  const bottom = place.top + place.height;
  svg.append(shape("path", { class: "axis", d: `M${place.left},${bottom}h${place.width}` }));
  for (const value of at) {
    const x = place.x(value);
    svg.append(shape("path", { class: "axis", d: `M${x},${bottom}v4` }));
    svg.append(shape("text", { x, y: bottom + 16, "text-anchor": "middle" }, spoken(value)));
  }
  svg.append(shape("text", { x: place.left + place.width, y: bottom + 31, "text-anchor": "end" }, label));
}

/** A line through values. It is broken where there are none, and at `breaks`; a point that is left alone is a ring. */
function path(place, x, values, breaks) {
  const runs = [];
  let open = false;
  values.forEach((value, index) => {
    if (index && breaks.some((at) => x[index - 1] < at && at <= x[index])) open = false;
    if (value === null) {
      open = false;
      return;
    }
    if (!open) runs.push([]);
    open = true;
    runs.at(-1).push(`${place.x(x[index]).toFixed(1)},${place.y(value).toFixed(1)}`);
  });
  const ring = "m-2,0a2,2 0 1,0 4,0a2,2 0 1,0 -4,0";
  return runs.map((run) => `M${run.join("L")}${run.length === 1 ? ring : ""}`).join("");
}

// --- plots -----------------------------------------------------------------------------------------------------------

/** Lines, what they are compared with, and the error below. */
class Lines {
  constructor(data, room, label) {
    Object.assign(this, { data, room, label, at: null });
    this.visible = data.series.map((one, index) => one.shown ?? index < data.shown);
    this.hasError = data.series.some((one) => one.error);
    this.readout = element("p", { className: "readout" });
    this.readout.setAttribute("aria-live", "polite");
    room.after(this.readout, this.legend());
    this.rest();
  }

  legend() {
    const { series } = this.data;
    const box = element("div", { className: "legend" });
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", `Lines of ${this.label}`);
    const buttons = series.map((one, index) => {
      const swatch = element("span", { className: `swatch s${index % 8}` });
      const button = element("button", { type: "button" }, swatch, one.name);
      button.addEventListener("click", () => {
        this.visible[index] = !this.visible[index];
        update();
      });
      return button;
    });
    const update = () => {
      buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(this.visible[index])));
      this.draw();
    };
    const all = element("button", { type: "button" }, "all");
    const none = element("button", { type: "button" }, "none");
    for (const [button, value] of [[all, true], [none, false]]) {
      button.addEventListener("click", () => {
        this.visible.fill(value);
        update();
      });
    }
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(this.visible[index])));
    box.append(...buttons, ...(series.length > 2 ? [all, none] : []));
    return box;
  }

  draw() {
    const { x, series, marks, xLabel, yLabel, errorLabel } = this.data;
    const width = this.room.clientWidth;
    const inner = { left: 62, width: Math.max(80, width - 62 - 10) };
    const upper = { ...inner, top: 22, height: 180 };
    const lower = { ...inner, top: upper.top + upper.height + 32, height: 70 };
    const height = (this.hasError ? lower.top + lower.height : upper.top + upper.height) + 38;
    const svg = shape("svg", { width, height, role: "img", tabindex: "0", "aria-label": this.label });
    const shown = series.map((one, index) => ({ ...one, index })).filter((one) => this.visible[one.index]);

    const xs = extent(x);
    const ys = widened(extent(shown.flatMap((one) => [...one.values, ...(one.compared ?? [])])));
    this.place = field(upper, xs, ys);
    drawY(svg, this.place, ys, yLabel);
    let last = this.place;
    const fields = [[this.place, (one) => one.compared ?? one.values, ""]];
    if (this.hasError) {
      const worst = Math.max(0, ...shown.flatMap((one) => one.error ?? []));
      const errors = [0, 1.06 * (worst || 1)];
      last = field(lower, xs, errors);
      drawY(svg, last, worst ? errors : [0, 0], worst ? errorLabel : `${errorLabel}: 0 throughout`);
      fields.push([last, (one) => one.error ?? [], ""]);
    }
    for (const mark of marks) {
      const from = this.place.top;
      svg.append(shape("path", { class: "mark", d: `M${this.place.x(mark)},${from}V${last.top + last.height}` }));
    }
    drawX(svg, last, ticks(...xs, inner.width / 90), xLabel);
    for (const one of shown) {
      if (one.compared) this.line(svg, this.place, one, one.values, "under");
    }
    for (const [place, values] of fields) {
      for (const one of shown) this.line(svg, place, one, values(one), one.index >= 8 ? "dashed" : "");
    }
    this.cursor = shape("path", { class: "cursor", d: "" });
    this.bottom = last.top + last.height;
    svg.append(this.cursor);
    this.listen(svg);
    this.room.replaceChildren(svg);
    this.point(this.at);
  }

  line(svg, place, one, values, how) {
    const d = path(place, this.data.x, values, this.data.marks);
    if (d) svg.append(shape("path", { class: `line ${how} s${one.index % 8}`, d }));
  }

  listen(svg) {
    const { x } = this.data;
    svg.addEventListener("pointermove", (event) => {
      const wanted = event.clientX - svg.getBoundingClientRect().left;
      let nearest = 0;
      x.forEach((value, index) => {
        if (Math.abs(this.place.x(value) - wanted) < Math.abs(this.place.x(x[nearest]) - wanted)) nearest = index;
      });
      this.point(nearest);
    });
    svg.addEventListener("pointerleave", () => this.point(null));
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10, Home: -Infinity, End: Infinity }[event.key];
      if (step === undefined && event.key !== "Escape") return;
      event.preventDefault();
      const from = this.at ?? (step > 0 ? -1 : x.length);
      this.point(event.key === "Escape" ? null : Math.min(x.length - 1, Math.max(0, from + step)));
    });
  }

  /** Say what the lines are at one place of the x axis. */
  point(at) {
    this.at = at;
    if (at === null) {
      this.cursor.setAttribute("d", "");
      this.rest();
      return;
    }
    const { x, series, names, xLabel } = this.data;
    const across = this.place.x(x[at]);
    this.cursor.setAttribute("d", `M${across},${this.place.top}V${this.bottom}`);
    const parts = series.filter((_, index) => this.visible[index]).map((one) => {
      if (!one.compared) return `${one.name} ${spoken(one.values[at])}`;
      const error = one.error ? `, error ${spoken(one.error[at])}` : "";
      return `${one.name}: ${names[0]} ${spoken(one.values[at])}, ${names[1]} ${spoken(one.compared[at])}${error}`;
    });
    this.readout.textContent = `${xLabel}: ${spoken(x[at])}. ${parts.slice(0, 6).join("; ")}`;
  }

  /** What the lines mean, while nobody points at them. */
  rest() {
    const { series, names, marks, markLabel } = this.data;
    const meaning = series.some((one) => one.compared) ? `Broad: ${names[0]}. Thin: ${names[1]}. ` : "";
    this.readout.textContent = meaning + (marks.length ? `Dotted: ${markLabel}.` : "");
  }
}

/** Bars between edges, with named places. */
class Histogram {
  constructor(data, room, label) {
    Object.assign(this, { data, room, label });
  }

  draw() {
    const { edges, counts, marks, xLabel, log } = this.data;
    const width = this.room.clientWidth;
    const box = { left: 62, width: Math.max(80, width - 62 - 10), top: 14 + 15 * marks.length, height: 150 };
    const svg = shape("svg", { width, height: box.top + box.height + 38, role: "img", "aria-label": this.label });
    const xs = extent([...edges, ...marks.map(([, at]) => at)]);
    const ys = [0, Math.max(1, ...counts)];
    const place = field(box, xs, ys, log);
    drawY(svg, place, ys, "");
    drawX(svg, place, log ? logTicks(...xs) : ticks(...xs, box.width / 90), xLabel);
    counts.forEach((count, index) => {
      const [from, to] = [place.x(edges[index]), place.x(edges[index + 1])];
      if (!count) return;
      const [top, bottom] = [Math.min(place.y(count), place.y(0) - 1), place.y(0)];
      svg.append(shape("rect", { class: "bar", x: from, y: top, width: Math.max(1, to - from - 1), height: bottom - top }));
    });
    marks.forEach(([name, at], index) => {
      const [x, y] = [place.x(at), 12 + 15 * index];
      const left = x > box.left + box.width / 2;
      svg.append(shape("path", { class: "mark", d: `M${x},${y - 8}V${box.top + box.height}` }));
      svg.append(shape("text", { x: x + (left ? -5 : 5), y, "text-anchor": left ? "end" : "start" }, name));
    });
    this.room.replaceChildren(svg);
  }
}

function drawWhenSeen() {
  const kinds = { lines: Lines, histogram: Histogram };
  const drawn = new Map();
  const resized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const { plot, width } = drawn.get(target);
      if (!target.clientWidth || target.clientWidth === width) continue;
      drawn.get(target).width = target.clientWidth;
      plot.draw();
    }
  });
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      const data = JSON.parse(target.querySelector("script").textContent);
      const room = target.querySelector(".room");
      const label = target.querySelector("figcaption").textContent;
      drawn.set(room, { plot: new kinds[target.dataset.plot](data, room, label), width: 0 });
      resized.observe(room);
    }
  }, { rootMargin: "400px" });
  for (const figure of document.querySelectorAll("figure[data-plot]")) {
    figure.append(element("div", { className: "room" }));
    seen.observe(figure);
  }
}

theme.begin();
drawWhenSeen();
