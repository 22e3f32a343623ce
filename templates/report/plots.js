"use strict";
const PRINTED = 640; // pixels, which fit on A4 and on letter paper

// Plotly reads <b>, <a href> and the like in texts.
const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const short = (text, most) => plain(text.length > most ? `${text.slice(0, most - 1)}…` : text);

// How many seconds the unit of a time axis has, and its name.
function timeUnit(longest) {
  const [, unit, name] = [[259200, 86400, "days"], [10800, 3600, "hours"], [300, 60, "minutes"]].find(([from]) => longest > from) || [0, 1, "seconds"];
  return [unit, name];
}

// Draws the figure of each of these elements when it can be seen, or almost, and all of them to be printed.
// Returns what draws them again.
function showPlots(divs, filename, figureOf, whenNew = () => {}) {
  const near = new Set();
  const stale = new Set(divs);
  let printing = false;
  const config = {
    responsive: true,
    displaylogo: false,
    typesetMath: false,
    // By name: among the usual ones is one that sends the data to a server of Plotly.
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
    plotlyServerURL: "",
    toImageButtonOptions: { filename, scale: 2 },
  };

  function draw(div) {
    const { traces, layout } = figureOf(div, printing);
    const common = {
      width: printing ? PRINTED : undefined,
      autosize: !printing,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 13 },
      hoverlabel: { bgcolor: "#1c2128", bordercolor: "#8b949e", font: { color: "#ffffff" }, namelength: -1 },
    };
    stale.delete(div);
    const isNew = !div.classList.contains("js-plotly-plot");
    Plotly.react(div, traces, { ...common, ...layout }, config);
    if (isNew) whenNew(div);
    for (const svg of div.querySelectorAll("svg.main-svg")) svg.setAttribute("aria-hidden", "true");
  }

  const watch = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) near.add(target);
        else near.delete(target);
        if (isIntersecting && stale.has(target)) draw(target);
      }
    },
    { rootMargin: "600px" },
  );
  for (const div of divs) {
    div.hidden = false;
    watch.observe(div);
  }
  for (const event of ["beforeprint", "afterprint"]) {
    addEventListener(event, () => {
      printing = event === "beforeprint";
      divs.forEach(draw);
    });
  }
  return () => {
    for (const div of divs) stale.add(div);
    near.forEach(draw);
  };
}
