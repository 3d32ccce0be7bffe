"use strict";
// Plots: each figure's numbers, drawn by ECharts, with a legend of buttons beside it. Arrow keys walk along the bottom.
const plots = (() => {
  // After Okabe and Ito; each line has a dash and a symbol of its own as well.
  const COLORS = {
    light: ["#282828", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07d00"],
    dark: ["#e6e6e6", "#56b4e9", "#ff8c42", "#3fd0a0", "#e79fc8", "#f0c94a"],
  };
  // From dark to bright, for parts of a whole that have an order.
  const STEPS = [
    "#00204d",
    "#123570",
    "#3b496c",
    "#575d6d",
    "#707173",
    "#8a8678",
    "#a59c74",
    "#c3b369",
    "#e1cc55",
    "#f5dd48",
  ];
  const DASHES = ["solid", "dashed", "dotted", [9, 3, 2, 3], [2, 2], [12, 4]];
  const SYMBOLS = ["circle", "rect", "triangle", "diamond", "arrow", "pin"];

  const short = (value) => {
    if (value === 0) return "0";
    const units = [
      [1e9, " G"],
      [1e6, " M"],
      [1e3, " k"],
      [1, ""],
    ];
    const [size, unit] = units.find(([size]) => Math.abs(value) >= size) ?? [1, ""];
    return `${Number((value / size).toPrecision(4))}${unit}`;
  };
  const label = (plot, value) => (plot.axis === "percent" ? `${Number((value * 100).toFixed(1))} %` : short(value));
  const placesOf = (plot) =>
    [...new Set(plot.lines.flatMap((line) => line.points.map((point) => point[0])))].sort((a, b) => a - b);
  // What stands along the bottom where places are no numbers; the library stacks there alone.
  const names = (plot) =>
    plot.scale.named ?? (plot.shape === "stacked" ? placesOf(plot).map((at) => short(at)) : undefined);
  const keys = (plot) => (plot.scale.named ? plot.scale.named.map((_, at) => at) : placesOf(plot));
  const place = (plot, at) => (plot.scale.named ? plot.scale.named[at] : `${short(at)} ${plot.along}`);

  const color = (plot, number, dark) => {
    const steps = plot.shape === "stacked" ? STEPS : COLORS[dark ? "dark" : "light"];
    const at =
      plot.shape === "stacked"
        ? Math.round((number * (STEPS.length - 1)) / Math.max(1, plot.lines.length - 1))
        : number;
    return steps[at % steps.length];
  };

  const bottom = (plot, ink) => {
    const common = { name: plot.along, nameLocation: "middle", nameGap: 26, nameTextStyle: { color: ink.faint } };
    const axis = {
      axisLabel: { color: ink.faint, hideOverlap: true },
      axisLine: { lineStyle: { color: ink.line } },
      splitLine: { show: false },
    };
    if (names(plot)) return { ...common, ...axis, type: "category", data: names(plot) };
    const points = placesOf(plot);
    const ends = points.length ? { min: points[0], max: points[points.length - 1] } : {};
    if (plot.scale === "doubling") return { ...common, ...axis, type: "log", logBase: 2, ...ends };
    const labels = { ...axis.axisLabel, showMaxLabel: false, formatter: short };
    return { ...common, ...axis, axisLabel: labels, type: "value", ...ends, min: 0 };
  };

  const series = (plot, line, number, dark) => {
    const own = color(plot, number, dark);
    const known = plot.axis === "logarithmic" ? line.points.filter((point) => point[1] > 0) : line.points;
    const valueAt = new Map(known);
    const data = names(plot) ? keys(plot).map((at) => valueAt.get(at) ?? null) : known;
    const common = { name: line.name, data, itemStyle: { color: own }, animation: false };
    if (plot.shape === "bars") return { ...common, type: "bar" };
    const dots = { symbol: SYMBOLS[number % SYMBOLS.length], symbolSize: 6, showSymbol: known.length <= 16 };
    const drawn = {
      ...common,
      ...dots,
      type: "line",
      lineStyle: { color: own, width: 2, type: DASHES[number % DASHES.length] },
    };
    if (plot.shape !== "stacked") return drawn;
    return {
      ...drawn,
      stack: "all",
      showSymbol: false,
      lineStyle: { width: 0.5, color: own },
      areaStyle: { color: own, opacity: 1 },
    };
  };

  const option = (plot, dark) => {
    const style = getComputedStyle(document.documentElement);
    const ink = { faint: style.getPropertyValue("--faint").trim(), line: style.getPropertyValue("--line").trim() };
    return {
      aria: { enabled: true, decal: { show: plot.shape === "bars" } },
      animation: false,
      grid: { left: 8, right: 18, top: 14, bottom: 34, containLabel: true },
      // As rich text, names stay text.
      tooltip: {
        trigger: "axis",
        renderMode: "richText",
        valueFormatter: (value) => (value == null ? "-" : label(plot, value)),
      },
      legend: { show: false },
      xAxis: bottom(plot, ink),
      yAxis: {
        type: plot.axis === "logarithmic" ? "log" : "value",
        axisLabel: { color: ink.faint, formatter: (value) => label(plot, value) },
        splitLine: { lineStyle: { color: ink.line, opacity: 0.5 } },
        ...(plot.axis === "percent" ? { min: 0, max: 1 } : {}),
      },
      series: plot.lines.map((line, number) => series(plot, line, number, dark)),
    };
  };

  // A line as the plot draws it, for the legend.
  const sample = (plot, number, dark) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 28 14");
    svg.setAttribute("aria-hidden", "true");
    const add = (name, attributes) => {
      const shape = document.createElementNS("http://www.w3.org/2000/svg", name);
      Object.entries(attributes).forEach(([key, value]) => shape.setAttribute(key, value));
      svg.append(shape);
    };
    const own = color(plot, number, dark);
    if (plot.shape !== "lines") {
      add("rect", { x: 4, y: 1, width: 20, height: 12, fill: own });
      return svg;
    }
    const dash =
      { solid: "", dashed: "6 4", dotted: "2 3" }[DASHES[number % DASHES.length]] ??
      DASHES[number % DASHES.length].join(" ");
    add("line", { x1: 0, x2: 28, y1: 7, y2: 7, stroke: own, "stroke-width": 2, "stroke-dasharray": dash });
    const shapes = [
      "M14 3a4 4 0 1 0 .01 0Z",
      "M10 3h8v8h-8Z",
      "M14 2l5 9h-10Z",
      "M14 2l5 5-5 5-5-5Z",
      "M14 2l4 9-4-2-4 2Z",
      "M14 12l-4-6a4 4 0 1 1 8 0Z",
    ];
    add("path", { d: shapes[number % shapes.length], fill: own });
    return svg;
  };

  const legend = (figure, plot, chart, dark) => {
    const list = figure.querySelector(".legend");
    const entries = plot.lines.map((line, number) => {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.append(sample(plot, number, dark), line.name);
      button.addEventListener("click", () => {
        chart.dispatchAction({ type: "legendToggleSelect", name: line.name });
        button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      });
      const item = document.createElement("li");
      item.append(button);
      return item;
    });
    // What lies on top stands on top.
    list.replaceChildren(...(plot.shape === "stacked" ? entries.reverse() : entries));
  };

  // Arrow keys: the values at one place along the bottom, in words.
  const walk = (figure, plot, chart) => {
    const places = placesOf(plot);
    const readout = figure.querySelector(".readout");
    let at = -1;
    figure.querySelector(".plot").addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step === undefined || places.length === 0) return;
      event.preventDefault();
      at = Math.min(places.length - 1, Math.max(0, at + step));
      // Lines have points at places of their own: what a line came to last is what it is here.
      const value = (line) => line.points.findLast((point) => point[0] <= places[at])?.[1];
      const known = plot.lines.filter((line) => value(line) !== undefined);
      const words = known.map((line) => `${line.name} ${label(plot, value(line))}`);
      readout.textContent = `${place(plot, places[at])}: ${words.join(", ")}`;
      const isThere = (line) => line.points.some((point) => point[0] === places[at]);
      const seriesIndex = plot.lines.findIndex(isThere);
      const own = plot.lines[seriesIndex].points.findIndex((point) => point[0] === places[at]);
      chart.dispatchAction({ type: "showTip", seriesIndex, dataIndex: own });
    });
  };

  const draw = (figure, plot, dark) => {
    const element = figure.querySelector(".plot");
    echarts.getInstanceByDom(element)?.dispose();
    const chart = echarts.init(element, null, { renderer: "svg" });
    chart.setOption(option(plot, dark));
    legend(figure, plot, chart, dark);
    return chart;
  };

  // Draws all of them, and again whenever it becomes dark or light, goes to paper, or the page gets another width.
  const start = (all) => {
    const night = matchMedia("(prefers-color-scheme: dark)");
    const figures = [...document.querySelectorAll("figure[data-plot]")];
    let charts = [];
    const redraw = (dark) => {
      charts = figures.map((figure) => draw(figure, all[figure.dataset.plot], dark));
      return charts;
    };
    redraw(night.matches);
    figures.forEach((figure, number) =>
      walk(figure, all[figure.dataset.plot], { dispatchAction: (action) => charts[number].dispatchAction(action) }),
    );
    night.addEventListener("change", () => redraw(night.matches));
    // Paper has no place to click: what is folded is opened for it.
    let folded = [];
    addEventListener("beforeprint", () => {
      folded = [...document.querySelectorAll("details:not([open])")];
      folded.forEach((details) => (details.open = true));
      redraw(false);
    });
    addEventListener("afterprint", () => {
      folded.forEach((details) => (details.open = false));
      redraw(night.matches);
    });
    new ResizeObserver(() => charts.forEach((chart) => chart.resize())).observe(document.querySelector("main"));
    return () => charts;
  };
  return { start };
})();
