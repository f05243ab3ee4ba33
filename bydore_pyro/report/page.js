"use strict";
// The page's own script: it unpacks the library, draws the figures, and singles out what is clicked.
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const told = JSON.parse(document.getElementById("told").textContent);
  const bar = document.getElementById("chosen");
  const drawn = []; // the elements that hold figures
  let chosen = null;

  const keysOf = (trace) => (trace.meta && trace.meta.keys) || [];

  function paint(element) {
    const lit = element.data.map((t) => {
      const keys = keysOf(t);
      return chosen === null || keys.length === 0 || keys.includes(chosen);
    });
    const widths = element.data.map((t, i) => {
      const width = (t.meta && t.meta.width) || 0;
      return chosen !== null && keysOf(t).length && lit[i] ? width + 1.4 : width;
    });
    Plotly.restyle(element, { opacity: lit.map((on) => (on ? 1 : 0.1)), "line.width": widths });
    const place = element.data.findIndex((t) => t.meta && t.meta.role === "band");
    if (place < 0) return;
    const line = element.data.find((t) => t.customdata && keysOf(t).includes(chosen));
    const x = [], y = [];
    if (line) {
      const ends = (i, sign) => Math.min(1, Math.max(0, line.y[i] + sign * line.customdata[i]));
      for (let i = 0; i < line.x.length; i++) { x.push(line.x[i]); y.push(ends(i, 1)); }
      for (let i = line.x.length - 1; i >= 0; i--) { x.push(line.x[i]); y.push(ends(i, -1)); }
    }
    const fill = line ? line.line.color + "33" : "rgba(0,0,0,0)";
    Plotly.restyle(element, { x: [x], y: [y], fillcolor: fill }, [place]);
  }

  function choose(key) {
    chosen = key === chosen ? null : key;
    for (const element of all("tr[data-key]")) {
      element.classList.toggle("chosen", element.dataset.key === chosen);
      element.classList.toggle("faded", chosen !== null && element.dataset.key !== chosen);
    }
    for (const button of all("button[data-key]")) {
      button.setAttribute("aria-pressed", String(button.dataset.key === chosen));
    }
    bar.hidden = chosen === null;
    bar.querySelector("span").textContent = chosen === null ? "" : told[chosen];
    drawn.forEach(paint);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-key]");
    if (button) choose(button.dataset.key);
  });
  bar.querySelector("button").addEventListener("click", () => choose(chosen));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && chosen !== null) choose(chosen);
  });

  async function library() {
    const packed = document.getElementById("plotly").textContent.trim();
    const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  }

  async function draw() {
    // A finger that scrolls the page over a figure must not zoom it.
    const mouse = matchMedia("(pointer: fine)").matches;
    const settings = { displayModeBar: false, responsive: true, showTips: false };
    for (const element of all(".canvas")) {
      const figure = JSON.parse(document.getElementById(element.dataset.figure).textContent);
      figure.layout.dragmode = mouse ? "zoom" : false;
      for (const axis of ["xaxis", "yaxis"]) figure.layout[axis].fixedrange = !mouse;
      element.replaceChildren();
      await Plotly.newPlot(element, figure.data, figure.layout, settings);
      element.on("plotly_click", (event) => {
        const keys = keysOf(event.points[0].data);
        if (keys.length) choose(keys[0]);
      });
      drawn.push(element);
      if (chosen !== null) paint(element);
    }
    addEventListener("beforeprint", () => drawn.forEach((element) => Plotly.Plots.resize(element)));
  }

  const state = document.documentElement.dataset;
  library().then(draw).then(
    () => { state.figures = "drawn"; },
    (error) => {
      state.figures = "failed";
      console.error(error);
      for (const element of all(".canvas:not(.js-plotly-plot)")) {
        const line = document.createElement("p");
        line.textContent = "This browser could not draw the figure; the tables hold its values.";
        element.replaceChildren(line);
      }
    },
  );
})();
