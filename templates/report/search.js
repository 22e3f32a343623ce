"use strict";
(() => {
  const { searches } = JSON.parse(document.getElementById("data").textContent);
  const figures = [...document.querySelectorAll(".plot[data-search]")];
  if (!figures.length) return;

  const LONGEST = 32;
  const MOST_NAMES = 12;
  const SCALE = ["#3178c6", "#4f8bbb", "#7899a4", "#a29a7d", "#c58a4d", "#cf6f0c"]; // from the worst to the best
  const NO_VALUE = "#8b949e";
  const STATES = { completed: "--c2", running: "--c0", failed: "--c3", timeout: "--c3", out_of_memory: "--c3", node_fail: "--c3", vanished: "--c3" };
  const root = getComputedStyle(document.documentElement);

  const name = (text) => short(text, LONGEST);
  const shown = (value) => (typeof value === "number" ? String(Number(value.toPrecision(5))) : name(String(value ?? "-")));

  // Where each value stands on an axis from 0 to 1, and the texts beside it.
  function axisOf(column) {
    const there = column.values.filter((value) => value !== null);
    if (!column.numeric) {
      const names = [...new Set(there)].sort();
      const at = (value) => (value === null ? null : (names.indexOf(value) + 0.5) / names.length);
      const every = Math.ceil(names.length / MOST_NAMES);
      return { at, texts: names.filter((_, place) => place % every === 0).map((name) => [at(name), short(name, 18)]) };
    }
    const size = column.log ? Math.log : Number;
    const low = Math.min(...there);
    const high = Math.max(...there);
    const at = (value) => (value === null ? null : high > low ? (size(value) - size(low)) / (size(high) - size(low)) : 0.5);
    return { at, texts: high > low ? [[0, shown(low)], [1, shown(high)]] : [[0.5, shown(low)]] };
  }

  function binOf(search, place) {
    const there = search.reached.filter((value) => value !== null).sort((one, other) => one - other);
    const value = search.reached[place];
    if (value === null) return -1;
    const rank = there.length > 1 ? there.indexOf(value) / (there.length - 1) : 1;
    return Math.round((search.maximized ? rank : 1 - rank) * (SCALE.length - 1));
  }

  function title(search, place) {
    const value = search.reached[place];
    return `trial ${search.trials[place]}${value === null ? "" : `: ${name(search.metric)} ${shown(value)}`}`;
  }

  function parallel(search) {
    const columns = [...search.columns, ...(search.metric ? [{ name: search.metric, values: search.reached, numeric: true, log: false }] : [])];
    const axes = columns.map((column) => axisOf(column.values.some((value) => value !== null) ? column : { ...column, values: [0] }));
    const traces = [-1, ...SCALE.keys()].map((bin) => {
      const trace = { x: [], y: [], text: [] };
      search.trials.forEach((_, place) => {
        if (binOf(search, place) !== bin) return;
        columns.forEach((column, number) => {
          trace.x.push(number);
          trace.y.push(axes[number].at(column.values[place]));
          trace.text.push(`${title(search, place)}<br>${name(column.name)}: ${shown(column.values[place])}`);
        });
        trace.x.push(null);
        trace.y.push(null);
        trace.text.push("");
      });
      return {
        ...trace,
        type: "scatter",
        mode: "lines+markers",
        opacity: search.trials.length > 100 ? 0.5 : 0.85,
        line: { color: bin < 0 ? NO_VALUE : SCALE[bin], width: bin === SCALE.length - 1 ? 2 : 1, dash: bin < 0 ? "dot" : "solid" },
        marker: { size: 4 },
        hovertemplate: "%{text}<extra></extra>",
      };
    });
    const texts = axes.flatMap(({ texts: own }, number) => own.map(([y, text]) => ({ x: number, y, text, showarrow: false, xanchor: number === axes.length - 1 ? "right" : "left", xshift: number === axes.length - 1 ? -6 : 6, font: { size: 11 } })));
    return {
      traces: traces.filter((trace) => trace.x.length),
      layout: {
        margin: { l: 24, r: 24, t: 24, b: 64 },
        xaxis: { tickvals: [...columns.keys()], ticktext: columns.map((column) => short(column.name, 20)), range: [-0.1, columns.length - 0.9], zeroline: false, automargin: true },
        yaxis: { visible: false, range: [-0.06, 1.06] },
        annotations: texts,
      },
    };
  }

  function against(search, number) {
    const column = search.columns[number];
    const places = [...search.trials.keys()].filter((place) => search.reached[place] !== null && column.values[place] !== null);
    return {
      traces: [{
        type: "scatter",
        mode: "markers",
        x: places.map((place) => (column.numeric ? column.values[place] : name(column.values[place]))),
        y: places.map((place) => search.reached[place]),
        text: places.map((place) => `${title(search, place)}<br>${name(column.name)}: ${shown(column.values[place])}`),
        marker: { size: 7, opacity: 0.8, color: places.map((place) => SCALE[binOf(search, place)]) },
        hovertemplate: "%{text}<extra></extra>",
      }],
      layout: {
        margin: { l: 64, r: 12, t: 12, b: 48 },
        xaxis: { type: column.log ? "log" : column.numeric ? "linear" : "category", title: { text: name(column.name) }, automargin: true, zeroline: false },
        yaxis: { title: { text: name(search.metric) }, automargin: true, exponentformat: "power", zeroline: false },
      },
    };
  }

  function overTime(search) {
    const longest = Math.max(1, ...search.bars.map((bar) => bar[3]));
    const [unit, units] = timeUnit(longest);
    const traces = [...new Set(search.bars.map((bar) => bar[1]))].map((state) => {
      const own = search.bars.filter((bar) => bar[1] === state);
      return {
        type: "scatter",
        mode: "lines+markers",
        name: name(state.replaceAll("_", " ")),
        x: own.flatMap((bar) => [bar[2] / unit, bar[3] / unit, null]),
        y: own.flatMap((bar) => [bar[0], bar[0], null]),
        text: own.flatMap((bar) => Array(3).fill(`trial ${bar[0]}: ${name(state)}, ${shown((bar[3] - bar[2]) / unit)} ${units}`)),
        line: { color: root.getPropertyValue(STATES[state] || "--c9").trim(), width: Math.max(1, Math.min(8, 240 / search.trials.length)) },
        marker: { size: 3 },
        hovertemplate: "%{text}<extra></extra>",
      };
    });
    const use = { type: "scatter", mode: "lines", name: search.use.name, x: search.use.t.map((at) => at / unit), y: search.use.n, yaxis: "y2", fill: "tozeroy", line: { shape: "hv", width: 1.5, color: root.getPropertyValue("--c4").trim() }, hovertemplate: "%{y}<extra></extra>" };
    return {
      traces: [...traces, use],
      layout: {
        height: 420,
        margin: { l: 64, r: 12, t: 12, b: 48 },
        showlegend: true,
        legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
        xaxis: { title: { text: `${units} since the first trial began` }, zeroline: false, automargin: true },
        yaxis: { domain: [0.36, 1], title: { text: "trial" }, autorange: "reversed", zeroline: false },
        yaxis2: { domain: [0, 0.28], title: { text: search.use.name }, rangemode: "tozero", zeroline: false },
      },
    };
  }

  const KINDS = { parallel, against, time: overTime };

  showPlots(figures, "search", (div) => {
    const { traces, layout } = KINDS[div.dataset.kind](searches[Number(div.dataset.search)], Number(div.dataset.column));
    return { traces, layout: { height: 320, showlegend: false, hovermode: "closest", ...layout } };
  });
})();
