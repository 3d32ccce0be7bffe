// The memory map: cells of pageblocks on a canvas a side, a slider over moments, and the frames of a block below.
const maps = (() => {
  const PLANES = 7;
  const HEIGHT = 560;
  // Of types, after Okabe and Ito; then of what is not there.
  const TYPES = ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#808080", "#80808022"];
  const OWNERS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d00", "#7b4fa3"];
  const STATES = ["#8fbf9f", "#e69f00", "#0072b2", "#d55e00", "#cc79a7", "#606060", "#80808033"];
  const MODES = [
    ["type", "type and use"],
    ["mixed", "mixed pageblocks"],
    ["owner", "owning CPU"],
    ["difference", "difference of the sides"],
  ];
  // How to read each of them.
  const ABOUT = {
    type: "Colour: migratetype, as in the table. Stronger colour: more pages in use. Dot: mixed pageblock, if cells are large enough for a dot.",
    mixed: "Orange: mixed pageblock, with both movable and unmovable pages. Pale: all other pageblocks.",
    owner: "Colour: owning CPU; CPUs whose numbers differ by a multiple of eight have the same colour. Grey: no owner.",
    difference: "Stronger colour: larger difference between the sides in pages in use, movable pages, or type.",
  };

  const element = (name, attributes = {}, ...children) => {
    const made = Object.assign(document.createElement(name), attributes);
    made.append(...children);
    return made;
  };
  const seconds = (map, moment) => `${(map.moments[moment] / 1e9).toFixed(3)} s`;
  const count = (number) => number.toLocaleString("en-US");

  // All moments of a side, each as planes of bytes: the difference to the moment before undone.
  const moments = (bytes, cells, number) => {
    const size = cells * PLANES;
    for (let at = size; at < bytes.length; at += 1) bytes[at] ^= bytes[at - size];
    return Array.from({ length: number }, (_, moment) => bytes.subarray(moment * size, (moment + 1) * size));
  };

  const cell = (side, moment, block) => {
    const planes = side.moments[moment];
    const wide = (plane) => planes[plane * side.cells + block] | (planes[(plane + 1) * side.cells + block] << 8);
    return { type: planes[block], used: wide(1), movable: wide(3), owner: wide(5) };
  };
  const isMixed = (of) => of.movable > 0 && of.movable < of.used;
  const distance = (a, b, pages) =>
    Math.min(
      1,
      (Math.abs(a.used - b.used) + Math.abs(a.movable - b.movable)) / pages + (a.type === b.type ? 0 : 0.5),
    );

  // How the cells of a map lie: a new stretch of memory begins a new row.
  const laid = (map, cells, width) => {
    const size = Math.max(2, Math.min(16, Math.floor(Math.sqrt((width * HEIGHT) / Math.max(1, cells)))));
    const columns = Math.max(8, Math.floor(width / size / 8) * 8);
    const rows = [];
    let first = 0;
    let top = 0;
    for (const stretch of map.stretches) {
      rows.push({ first, blocks: stretch.blocks, top, stretch });
      first += stretch.blocks;
      top += Math.ceil(stretch.blocks / columns);
    }
    const stretchOf = (block) => rows.find((row) => block >= row.first && block < row.first + row.blocks);
    return {
      size,
      columns,
      height: top,
      place: (block) => {
        const row = stretchOf(block);
        const within = block - row.first;
        return [within % columns, row.top + Math.floor(within / columns)];
      },
      blockAt: (x, y) => {
        const row = rows.find((row) => y >= row.top && y < row.top + Math.ceil(row.blocks / columns));
        const block = row === undefined || x >= columns ? -1 : (y - row.top) * columns + x;
        return row !== undefined && block >= 0 && block < row.blocks ? row.first + block : -1;
      },
      frame: (block, pages) => {
        const row = stretchOf(block);
        return [row.stretch.first + (block - row.first) * pages, row.stretch.zone];
      },
    };
  };

  const fill = (mode, of, other, pages) => {
    if (of.type >= TYPES.length - 1) return [TYPES[TYPES.length - 1], 1];
    switch (mode) {
      case "mixed":
        return [isMixed(of) ? "#d55e00" : TYPES[1], isMixed(of) ? 1 : 0.12];
      case "owner":
        return of.owner === 0 ? ["#808080", 0.15] : [OWNERS[(of.owner - 1) % OWNERS.length], 1];
      case "difference":
        return ["#a33200", other === null ? 0.05 : 0.05 + 0.95 * distance(of, other, pages)];
      default:
        return [TYPES[of.type], 0.13 + (0.87 * of.used) / pages];
    }
  };

  const sized = (canvas, width, height) => {
    const ratio = window.devicePixelRatio || 1;
    Object.assign(canvas, { width: width * ratio, height: height * ratio });
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    return pen;
  };

  const paint = (view, number) => {
    const { map, sides, layout, state } = view;
    const side = sides[number];
    const pen = sized(side.canvas, layout.columns * layout.size, layout.height * layout.size);
    const gap = layout.size > 3 ? 1 : 0;
    for (let block = 0; block < side.cells; block += 1) {
      const of = cell(side, state.moment, block);
      const other = sides.length > 1 ? cell(sides[number === 0 ? 1 : 0], state.moment, block) : null;
      const [color, strength] = fill(state.mode, of, other, map.block_pages);
      const [x, y] = layout.place(block).map((at) => at * layout.size);
      pen.globalAlpha = strength;
      pen.fillStyle = color;
      pen.fillRect(x, y, layout.size - gap, layout.size - gap);
      if (state.mode === "type" && isMixed(of) && layout.size > 3) {
        pen.globalAlpha = 1;
        pen.fillStyle = "#000000";
        pen.fillRect(x + layout.size / 2 - 2, y + layout.size / 2 - 2, 3, 3);
        pen.fillStyle = "#ffffff";
        pen.fillRect(x + layout.size / 2 - 1, y + layout.size / 2 - 1, 1, 1);
      }
    }
    const [x, y] = layout.place(state.block).map((at) => at * layout.size);
    pen.globalAlpha = 1;
    pen.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--focus");
    pen.lineWidth = 2;
    pen.strokeRect(x - 1, y - 1, layout.size + 1, layout.size + 1);
  };

  const words = (view, side) => {
    const { map, state } = view;
    const of = cell(side, state.moment, state.block);
    const owner = of.owner === 0 ? "none" : `CPU ${of.owner - 1}`;
    const type = map.types[of.type] ?? "absent";
    const pages = `pages in use: ${of.used} of ${map.block_pages}, movable: ${of.movable}`;
    return `${side.name}: ${type}, ${pages}, owner: ${owner}`;
  };

  const describe = (view) => {
    const { map, sides, layout, state } = view;
    const [frame, zone] = layout.frame(state.block, map.block_pages);
    const of = sides.map((side) => words(view, side)).join(". ");
    view.readout.textContent = `Pageblock ${count(state.block)} (frame ${count(frame)}, zone ${zone}). ${of}.`;
  };

  // What all cells of the moment come to, a row a type.
  const sums = (view) => {
    const { map, sides, state } = view;
    const of = (side) => map.sides[side].sums[state.moment];
    const row = (swatch, name, value) => {
      const cells = sides.map((_, side) => element("td", { className: "number" }, count(value(of(side)))));
      return element("tr", {}, element("td", {}, swatch, ` ${name}`), ...cells);
    };
    const colored = (color) => {
      if (state.mode !== "type") return "";
      const swatch = element("span", { className: "swatch" });
      swatch.style.background = color;
      return swatch;
    };
    const types = map.types
      .map((name, type) => [name, type])
      .filter(([, type]) => sides.some((_, side) => of(side).by_type[type] > 0));
    const rows = [
      ...types.map(([name, type]) => row(colored(TYPES[type]), name, (sum) => sum.by_type[type])),
      row("", "empty", (sum) => sum.empty),
      row("", "mixed", (sum) => sum.mixed),
      row("", "owned by a CPU", (sum) => sum.owned),
      row("", "pages in use", (sum) => sum.used),
    ];
    const head = element(
      "tr",
      {},
      element("th", {}, "pageblocks"),
      ...sides.map((side) => element("th", { className: "number" }, side.name)),
    );
    view.sums.replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows));
  };

  // The frames of the block under the cursor, where the page has them; else how to get them.
  const frames = (view) => {
    const { map, state } = view;
    const at = map.differing.indexOf(state.block);
    const last = map.moments.length - 1;
    const known = map.sides.filter((side) => side.command !== "");
    const time = (map.moments[state.moment] / 1e9).toFixed(6);
    const command = (side) =>
      element(
        "p",
        { className: "faint" },
        `Command for the frames of this pageblock, ${side.name}: `,
        element("code", {}, `${side.command.replace("{time}", `${time}s`)} --block ${state.block}`),
      );
    if (at < 0 || state.moment !== last) return view.frames.replaceChildren(...known.map(command));
    const drawings = map.sides.map((side) => {
      const canvas = element("canvas");
      canvas.setAttribute("role", "img");
      canvas.setAttribute(
        "aria-label",
        `${side.name}: ${side.frames[at].map(([state, , pages]) => `${pages} ${map.states[state]}`).join("; ")}`,
      );
      const [size, abreast] = [9, 32];
      const pen = sized(canvas, abreast * size, (map.block_pages / abreast) * size);
      let frame = 0;
      for (const [state, order, pages] of side.frames[at]) {
        for (let page = 0; page < pages; page += 1, frame += 1) {
          pen.fillStyle = STATES[state];
          // Blocks of several frames hang together.
          const joined = (page + 1) % (1 << order) !== 0 ? 0 : 1;
          pen.fillRect((frame % abreast) * size, Math.floor(frame / abreast) * size, size - joined, size - 1);
        }
      }
      return element("div", {}, element("h3", {}, side.name), canvas);
    });
    const meaning = map.states.map((about, state) => {
      const swatch = element("span", { className: "swatch" });
      swatch.style.background = STATES[state];
      return element("li", {}, swatch, ` ${about}`);
    });
    view.frames.replaceChildren(
      element("p", {}, `The ${map.block_pages} frames of pageblock ${count(state.block)} at ${seconds(map, last)}:`),
      element("div", { className: "sides" }, ...drawings),
      element("ul", { className: "legend" }, ...meaning),
    );
  };

  const show = (view) => {
    view.sides.forEach((_, number) => paint(view, number));
    view.slider.value = String(view.state.moment);
    const time = seconds(view.map, view.state.moment);
    view.time.textContent = time;
    view.slider.setAttribute("aria-valuetext", time);
    sums(view);
    describe(view);
    frames(view);
    view.mode.textContent = ABOUT[view.state.mode];
  };

  // Shows what somebody asked for, and puts it into the page's address, to be sent to others.
  const showAsked = (view) => {
    show(view);
    history.replaceState(null, "", `#map=${view.number}&moment=${view.state.moment}&block=${view.state.block}`);
  };

  const move = (view, block) => {
    if (block < 0 || block >= view.sides[0].cells || block === view.state.block) return;
    view.state.block = block;
    showAsked(view);
  };

  const steer = (view, canvas) => {
    canvas.addEventListener("click", (event) => {
      const size = view.layout.size;
      move(view, view.layout.blockAt(Math.floor(event.offsetX / size), Math.floor(event.offsetY / size)));
    });
    canvas.addEventListener("keydown", (event) => {
      const { columns } = view.layout;
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      move(view, view.state.block + step);
    });
  };

  const controls = (view) => {
    const slider = element("input", { type: "range", min: "0", max: String(view.map.moments.length - 1), step: "1" });
    slider.addEventListener("input", () => {
      view.state.moment = Number(slider.value);
      showAsked(view);
    });
    view.slider = slider;
    view.time = element("output");
    const modes = MODES.filter(([mode]) => mode !== "difference" || view.sides.length > 1).map(([mode, about]) => {
      const radio = element("input", {
        type: "radio",
        name: `mode-${view.number}`,
        value: mode,
        checked: mode === view.state.mode,
      });
      radio.addEventListener("change", () => {
        view.state.mode = mode;
        show(view);
      });
      return element("label", {}, radio, ` ${about}`);
    });
    const jump = element("select", {}, element("option", { value: "" }, "Pageblocks that differ most"));
    jump.setAttribute("aria-label", "Pageblocks that differ most");
    jump.append(
      ...view.map.differing.map((block) => element("option", { value: String(block) }, `pageblock ${count(block)}`)),
    );
    jump.addEventListener("change", () => jump.value !== "" && move(view, Number(jump.value)));
    return element(
      "div",
      { className: "controls" },
      element("label", { className: "wide" }, "Moment ", slider, view.time),
      element("fieldset", {}, element("legend", {}, "Show"), ...modes),
      ...(view.map.differing.length > 0 && view.sides.length > 1 ? [jump] : []),
    );
  };

  // Where a link into the page points to.
  const linked = (number, map, cells) => {
    const link = new URLSearchParams(location.hash.slice(1));
    const within = (name, end, otherwise) => {
      const at = Number.parseInt(link.get(name) ?? "", 10);
      return link.get("map") === String(number) && at >= 0 && at < end ? at : otherwise;
    };
    return {
      moment: within("moment", map.moments.length, map.moments.length - 1),
      block: within("block", cells, map.differing[0] ?? 0),
      mode: "type",
    };
  };

  const start = async (map, number, unpacked) => {
    const figure = document.querySelector(`figure[data-map="${number}"]`);
    const cells = map.stretches.reduce((sum, stretch) => sum + stretch.blocks, 0);
    const bytes = await Promise.all(map.sides.map((side) => unpacked(side.cells)));
    const sides = map.sides.map((side, at) => ({
      name: side.name,
      cells,
      canvas: element("canvas", { tabIndex: 0 }),
      moments: moments(new Uint8Array(bytes[at]), cells, map.moments.length),
    }));
    const view = {
      map,
      number,
      sides,
      state: linked(number, map, cells),
      sums: element("table"),
      readout: element("output", { className: "readout" }),
      frames: element("div", { className: "frames" }),
      mode: element("p", { className: "faint" }),
    };
    view.readout.setAttribute("aria-live", "polite");
    sides.forEach((side) => {
      side.canvas.setAttribute("role", "application");
      side.canvas.setAttribute("aria-label", `Pageblocks under ${side.name}; the arrow keys select a pageblock`);
      steer(view, side.canvas);
    });
    const boxes = sides.map((side) => element("div", {}, element("h3", {}, side.name), side.canvas));
    const box = element("div", { className: "sides" }, ...boxes);
    figure.append(controls(view), view.mode, box, view.readout, element("div", { className: "scroll" }, view.sums), view.frames);
    const lay = () => {
      view.layout = laid(map, cells, Math.max(160, boxes[0].clientWidth));
    };
    lay();
    show(view);
    let width = boxes[0].clientWidth;
    new ResizeObserver(() => {
      if (boxes[0].clientWidth === width) return;
      width = boxes[0].clientWidth;
      lay();
      show(view);
    }).observe(box);
    return { state: view.state, cell: (side, moment, block) => cell(sides[side], moment, block), cells };
  };
  return { start };
})();
