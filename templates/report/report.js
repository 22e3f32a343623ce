"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const controls = document.getElementById("controls");
  for (const div of document.querySelectorAll(".plot[data-study]")) {
    div.hidden = false;
    Plotly.newPlot(div, data.studies[Number(div.dataset.study)]);
    for (const svg of div.querySelectorAll("svg.main-svg")) svg.setAttribute("aria-hidden", "true");
  }
  if (!controls) return;

  const DASHES = ["solid", "dash", "dot", "dashdot"];
  const COLOURS = 10;
  const MOST_IN_LEGEND = 12;
  const UNIFIED = 8;
  const FEW = 30;
  const LONGEST = 48;
  const root = getComputedStyle(document.documentElement);
  const colours = Array.from({ length: COLOURS }, (_, n) => root.getPropertyValue(`--c${n}`).trim());
  const boxes = [...controls.querySelectorAll("input[data-item]")];
  const plots = [...document.querySelectorAll(".plot[data-plot]")];
  const hidden = new Set(); // numbers of items

  function longestTime(traces) {
    return Math.max(0, ...traces.map((trace) => (trace.t ? Math.max(...trace.t.filter(Number.isFinite), 0) : 0)));
  }

  // A value between two gaps has no line.
  function markers(y) {
    if (y.length <= FEW) return 6;
    const isGap = (place) => (y[place] ?? null) === null;
    return y.includes(null) && y.map((_, place) => (isGap(place - 1) && isGap(place + 1) ? 4 : 0));
  }

  function traceOf(trace, index, traces, byTime, unit) {
    const before = traces.slice(0, index).filter((other) => other.item === trace.item).length;
    const dash = DASHES[(Math.floor(trace.item / COLOURS) + before) % DASHES.length];
    const x = byTime ? (trace.t || []).map((seconds) => (seconds === null ? null : seconds / unit)) : trace.x;
    const marks = markers(trace.y);
    return {
      type: "scatter",
      name: short(trace.label, LONGEST),
      x,
      y: byTime && !trace.t ? [] : trace.y,
      mode: marks ? "lines+markers" : "lines",
      opacity: traces.length > MOST_IN_LEGEND ? 0.75 : 1,
      line: { color: colours[trace.item % COLOURS], width: traces.length > MOST_IN_LEGEND ? 1.2 : 2 - 0.5 * (trace.y.length > 300), dash },
      marker: { size: marks || 0, line: { width: 0 } },
      visible: hidden.has(trace.item) ? "legendonly" : true,
      hovertemplate: traces.length > UNIFIED ? "%{fullData.name}<br>%{x}: %{y}<extra></extra>" : "%{fullData.name}: %{y}<extra></extra>",
    };
  }

  const plotOf = (div) => data.plots[Number(div.dataset.plot)];

  function figureOf(div, printing) {
    const plot = plotOf(div);
    const byTime = controls.elements.axis.value === "t";
    const [unit, name] = timeUnit(longestTime(plot.traces));
    const untimed = byTime && plot.traces.every((trace) => !trace.t);
    const legend = plot.traces.length > 1 && plot.traces.length <= MOST_IN_LEGEND;
    const inARow = Math.max(1, Math.floor((printing ? PRINTED : div.clientWidth) / 230));
    const below = legend ? 8 + 21 * Math.ceil(plot.traces.length / inARow) : 0;
    return {
      traces: plot.traces.map((trace, index) => traceOf(trace, index, plot.traces, byTime, unit)),
      layout: {
        height: 310 + below,
        margin: { l: 64, r: 12, t: 30, b: 48 + below },
        xaxis: { spikethickness: 1, spikecolor: "#8b949e", title: { text: byTime ? `${name} since the first value` : "step" }, automargin: true, zeroline: false },
        yaxis: { type: document.getElementById("log").checked ? "log" : "linear", automargin: true, exponentformat: "power", zeroline: false },
        showlegend: legend,
        legend: { orientation: "h", x: 0, xref: "container", y: 0, yref: "container", yanchor: "bottom", itemwidth: 40 },
        hovermode: plot.traces.length > UNIFIED ? "closest" : "x unified",
        annotations: untimed ? [{ text: "No times were recorded for this metric.", showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5 }] : [],
        uirevision: `${byTime}`,
      },
    };
  }

  function listen(div) {
    const plot = plotOf(div);
    div.on("plotly_legendclick", (event) => {
      const { item } = plot.traces[event.curveNumber];
      show([item], hidden.has(item));
      return false;
    });
    div.on("plotly_legenddoubleclick", (event) => {
      const { item } = plot.traces[event.curveNumber];
      const alone = !hidden.has(item) && boxes.every((_, other) => other === item || hidden.has(other));
      show(boxes.keys(), alone);
      show([item], true);
      return false;
    });
  }

  function show(items, isShown) {
    for (const item of items) {
      if (isShown) hidden.delete(item);
      else hidden.add(item);
      if (boxes[item]) boxes[item].checked = isShown;
    }
    refresh();
  }

  function refresh() {
    redraw();
    const status = document.getElementById("shown");
    if (status) status.textContent = `${boxes.filter((box) => box.checked).length} of ${boxes.length} are shown`;
  }

  controls.hidden = false;
  document.getElementById("scriptless").remove();
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.addEventListener("change", (event) => {
    if (event.target.dataset.item) show([Number(event.target.dataset.item)], event.target.checked);
    else refresh();
  });
  document.getElementById("all")?.addEventListener("click", () => show(boxes.keys(), true));
  document.getElementById("none")?.addEventListener("click", () => show(boxes.keys(), false));

  const redraw = showPlots(plots, "metric", figureOf, listen);
  refresh();

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const each of opened) each.open = true;
  });
  addEventListener("afterprint", () => {
    for (const each of opened) each.open = false;
  });

  // A link to a run opens its details.
  function reveal() {
    const place = location.hash && document.getElementById(location.hash.slice(1));
    const details = place && place.querySelector(":scope > details");
    if (details) details.open = true;
  }
  addEventListener("hashchange", reveal);
  reveal();
})();
