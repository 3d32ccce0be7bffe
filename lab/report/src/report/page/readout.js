"use strict";
// Plots are in the page as SVG. This script reads their values out: at the place under the pointer, or at the one that
// arrow keys reach. An entry of a legend hides its line and shows it again.
const plots = (() => {
  const short = (value) => {
    if (value === 0) return "0";
    const units = [
      [1e9, " G"],
      [1e6, " M"],
      [1e3, " k"],
    ];
    const [size, unit] = units.find(([size]) => Math.abs(value) >= size) ?? [1, ""];
    return `${Number((value / size).toPrecision(4))}${unit}`;
  };
  const label = (plot, value) => (plot.axis === "percent" ? `${Number((value * 100).toFixed(1))} %` : short(value));
  const place = (plot, at) => (plot.scale.named ? plot.scale.named[at] : `${short(at)} ${plot.along}`);
  const placesOf = (plot) =>
    [...new Set(plot.lines.flatMap((line) => line.points.map((point) => point[0])))].sort((a, b) => a - b);

  // The values at one place. A line has points at places of its own: its last value up to there is its value there.
  const words = (plot, at) => {
    const value = (line) => line.points.findLast((point) => point[0] <= at)?.[1];
    const known = plot.lines.filter((line) => value(line) !== undefined);
    return `${place(plot, at)}: ${known.map((line) => `${line.name} ${label(plot, value(line))}`).join(", ")}`;
  };

  const read = (figure, plot) => {
    const svg = figure.querySelector("svg.plot");
    const cursor = svg.querySelector(".cursor");
    const readout = figure.querySelector(".readout");
    const places = placesOf(plot);
    const positions = svg.dataset.places.split(" ").map(Number);
    let current = -1;
    const show = (number) => {
      current = number;
      cursor.setAttribute("x1", positions[number]);
      cursor.setAttribute("x2", positions[number]);
      cursor.style.visibility = "visible";
      readout.textContent = words(plot, places[number]);
    };
    if (places.length === 0) return;
    svg.addEventListener("pointermove", (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse()).x;
      const distances = positions.map((position) => Math.abs(position - at));
      show(distances.indexOf(Math.min(...distances)));
    });
    svg.addEventListener("pointerleave", () => (cursor.style.visibility = "hidden"));
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      show(Math.min(places.length - 1, Math.max(0, current + step)));
    });
  };

  const toggle = (figure, entry) => {
    const isShown = entry.getAttribute("aria-pressed") === "true";
    entry.setAttribute("aria-pressed", String(!isShown));
    figure.querySelector(`.plot [data-line="${entry.dataset.line}"]`).classList.toggle("hidden", isShown);
  };

  const list = (figure) =>
    figure.querySelectorAll(".legend li").forEach((entry) => {
      entry.tabIndex = 0;
      entry.setAttribute("role", "button");
      entry.setAttribute("aria-pressed", "true");
      entry.addEventListener("click", () => toggle(figure, entry));
      entry.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        toggle(figure, entry);
      });
    });

  // Paper has no place to click: what is folded is opened for it.
  const unfoldForPaper = () => {
    let folded = [];
    addEventListener("beforeprint", () => {
      folded = [...document.querySelectorAll("details:not([open])")];
      folded.forEach((details) => (details.open = true));
    });
    addEventListener("afterprint", () => folded.forEach((details) => (details.open = false)));
  };

  const start = (all) => {
    document.querySelectorAll("figure[data-plot]").forEach((figure) => {
      read(figure, all[figure.dataset.plot]);
      list(figure);
    });
    unfoldForPaper();
  };
  return { start };
})();
