// Memory maps. The page has pictures of the opening moment; this script replaces them by canvases with one pixel for
// each cell, which the style sheet enlarges. A slider selects the moment. Below are the frames of the selected pageblock.
const maps = (() => {
  const PLANES = 7;
  // Of the states of a frame, in the order of their numbers.
  const STATES = ["#8fbf9f", "#e69f00", "#0072b2", "#d55e00", "#cc79a7", "#606060", "#80808033"];

  const element = (name, attributes = {}, ...children) => {
    const made = Object.assign(document.createElement(name), attributes);
    made.append(...children);
    return made;
  };
  const seconds = (map, moment) => `${(map.moments[moment] / 1e9).toFixed(3)} s`;
  const count = (number) => number.toLocaleString("en-US");

  // Returns all moments of a side, each as planes of bytes, with the difference to the moment before undone.
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
  const isMixed = (cell) => cell.movable > 0 && cell.movable < cell.used;
  const distance = (a, b) =>
    Math.abs(a.used - b.used) + Math.abs(a.movable - b.movable) + (a.type === b.type ? 0 : 512);

  // Returns the places of the cells: the position of each in a picture, and the pageblock at a position.
  const places = ({ stretches, layout, block_pages }) => {
    const rows = [];
    let first = 0;
    stretches.forEach((stretch, at) => {
      rows.push({ first, blocks: stretch.blocks, top: layout.tops[at], stretch });
      first += stretch.blocks;
    });
    const rowOf = (block) => rows.find((row) => block >= row.first && block < row.first + row.blocks);
    return {
      at: (block) => {
        const row = rowOf(block);
        return row.top * layout.columns + block - row.first;
      },
      block: (x, y) => {
        const place = y * layout.columns + x;
        const within = (row) => place - row.top * layout.columns;
        const row = rows.find((row) => within(row) >= 0 && within(row) < row.blocks);
        return row === undefined ? -1 : row.first + within(row);
      },
      frame: (block) => {
        const row = rowOf(block);
        return [row.stretch.first + (block - row.first) * block_pages, row.stretch.zone];
      },
    };
  };

  // Returns the colour and the opacity of a cell.
  const fill = ({ colors, block_pages }, mode, cell) => {
    const pale = [[128, 128, 128], colors.faintest];
    if (cell.type >= colors.types.length) return [[0, 0, 0], 0];
    switch (mode) {
      case "mixed":
        return isMixed(cell) ? [colors.types[0], 1] : pale;
      case "owner":
        return cell.owner === 0 ? pale : [colors.owners[(cell.owner - 1) % colors.owners.length], 1];
      default:
        return [colors.types[cell.type], colors.faintest + ((1 - colors.faintest) * cell.used) / block_pages];
    }
  };

  const fillDifference = ({ colors, block_pages }, a, b) => {
    const size = distance(a, b);
    const isAbsent = a.type >= colors.types.length;
    if (size === 0) return [colors.difference[1], isAbsent ? 0 : colors.faintest];
    const strength = Math.min(1, size / block_pages);
    return [colors.difference[0], colors.smallest + (1 - colors.smallest) * strength];
  };

  const paint = (view, canvas, color) => {
    const { columns, rows } = view.map.layout;
    const image = new ImageData(columns, rows);
    for (let block = 0; block < view.cells; block += 1) {
      const [rgb, opacity] = color(block);
      image.data.set([...rgb, Math.round(opacity * 255)], 4 * view.places.at(block));
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
  };

  const paintAll = (view) => {
    const { map, sides, state } = view;
    sides.forEach((side) =>
      paint(view, side.canvas, (block) => fill(map, state.mode, cell(side, state.moment, block))),
    );
    if (view.difference === null) return;
    const at = (side, block) => cell(sides[side], state.moment, block);
    paint(view, view.difference.canvas, (block) => fillDifference(map, at(0, block), at(1, block)));
  };

  // Marks the selected pageblock in each picture.
  const select = (view) => {
    const { columns, rows } = view.map.layout;
    const place = view.places.at(view.state.block);
    view.marks.forEach((mark) => {
      mark.style.left = `${(100 * ((place % columns) + 0.5)) / columns}%`;
      mark.style.top = `${(100 * (Math.floor(place / columns) + 0.5)) / rows}%`;
    });
  };

  const words = (view, side) => {
    const { map, state } = view;
    const { type, used, movable, owner } = cell(side, state.moment, state.block);
    const cpu = owner === 0 ? "none" : `CPU ${owner - 1}`;
    const pages = `pages in use: ${used} of ${map.block_pages}, movable: ${movable}`;
    return `${side.name}: ${map.types[type] ?? "absent"}, ${pages}, owner: ${cpu}`;
  };

  const describe = (view) => {
    const [frame, zone] = view.places.frame(view.state.block);
    const sides = view.sides.map((side) => words(view, side)).join(". ");
    view.readout.textContent = `Pageblock ${count(view.state.block)} (frame ${count(frame)}, zone ${zone}). ${sides}.`;
  };

  const showSums = (view) => {
    const value = (sums, key) => sums[key] ?? sums.by_type[key];
    view.figure.querySelectorAll("[data-sum]").forEach((field) => {
      const sums = view.map.sides[field.dataset.of].sums[view.state.moment];
      field.textContent = count(value(sums, field.dataset.sum));
    });
    const differ = view.figure.querySelector("[data-differ]");
    if (differ !== null) differ.textContent = count(view.map.differ[view.state.moment]);
  };

  const drawing = (view, side, runs) => {
    const canvas = element("canvas", { className: "frames" });
    const listed = runs.map(([state, , pages]) => `${pages} ${view.map.states[state]}`).join("; ");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${side.name}: ${listed}`);
    const [size, abreast] = [9, 32];
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [abreast * size, (view.map.block_pages / abreast) * size];
    Object.assign(canvas, { width: width * ratio, height: height * ratio });
    canvas.style.width = `${width}px`;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    let frame = 0;
    for (const [state, order, pages] of runs) {
      for (let page = 0; page < pages; page += 1, frame += 1) {
        pen.fillStyle = STATES[state];
        // The frames of a block have no gap between them.
        const gap = (page + 1) % (1 << order) !== 0 ? 0 : 1;
        pen.fillRect((frame % abreast) * size, Math.floor(frame / abreast) * size, size - gap, size - 1);
      }
    }
    return element("div", {}, element("h3", {}, side.name), canvas);
  };

  // Shows the frames of the selected pageblock if the page has them, else the commands that print them.
  const showFrames = (view) => {
    const { map, state } = view;
    const at = map.differing.indexOf(state.block);
    const last = map.moments.length - 1;
    const time = (map.moments[state.moment] / 1e9).toFixed(6);
    const command = (side) =>
      element(
        "p",
        { className: "faint" },
        `Command for the frames of this pageblock, ${side.name}: `,
        element("code", {}, `${side.command.replace("{time}", `${time}s`)} --block ${state.block}`),
      );
    if (at < 0 || state.moment !== last) {
      view.frames.replaceChildren(...map.sides.filter((side) => side.command !== "").map(command));
      return;
    }
    const meaning = map.states.map((about, number) => {
      const swatch = element("span", { className: "swatch" });
      swatch.style.background = STATES[number];
      return element("li", {}, swatch, about);
    });
    view.frames.replaceChildren(
      element("p", {}, `The ${map.block_pages} frames of pageblock ${count(state.block)} at ${seconds(map, last)}:`),
      element("div", { className: "sides" }, ...map.sides.map((side) => drawing(view, side, side.frames[at]))),
      element("ul", { className: "legend static" }, ...meaning),
    );
  };

  const show = (view) => {
    paintAll(view);
    view.slider.value = String(view.state.moment);
    const time = seconds(view.map, view.state.moment);
    view.time.textContent = time;
    view.slider.setAttribute("aria-valuetext", time);
    view.figure.querySelectorAll(":scope > .legend").forEach((legend) => {
      legend.hidden = legend.dataset.mode !== view.state.mode;
    });
    showSums(view);
    select(view);
    describe(view);
    showFrames(view);
  };

  // Shows the reader's selection, and puts it into the address of the page, so that it can be sent to others.
  const showSelection = (view) => {
    show(view);
    history.replaceState(null, "", `#map=${view.number}&moment=${view.state.moment}&block=${view.state.block}`);
  };

  const move = (view, block) => {
    if (block < 0 || block >= view.cells || block === view.state.block) return;
    view.state.block = block;
    showSelection(view);
  };

  // Replaces a picture by a canvas that shows the same cells and selects pageblocks.
  const replace = (view, name, about) => {
    const box = view.figure.querySelector(`[data-side="${name}"] .map`);
    const { columns, rows } = view.map.layout;
    const canvas = element("canvas", { tabIndex: 0, width: columns, height: rows });
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", `${about}; the arrow keys select a pageblock`);
    canvas.addEventListener("click", (event) => {
      const across = (offset, size, number) => Math.min(number - 1, Math.floor((offset / size) * number));
      const x = across(event.offsetX, canvas.clientWidth, columns);
      move(view, view.places.block(x, across(event.offsetY, canvas.clientHeight, rows)));
    });
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      move(view, view.state.block + step);
    });
    const mark = element("span", { className: "selected" });
    view.marks.push(mark);
    return { canvas, insert: () => box.replaceChildren(canvas, mark) };
  };

  const control = (view) => {
    view.slider.addEventListener("input", () => {
      view.state.moment = Number(view.slider.value);
      showSelection(view);
    });
    view.figure.querySelectorAll(".controls input[type=radio]").forEach((radio) =>
      radio.addEventListener("change", () => {
        view.state.mode = radio.value;
        show(view);
      }),
    );
    // Frames are known at the last moment only.
    const jump = view.figure.querySelector(".controls select");
    jump?.addEventListener("change", () => {
      if (jump.value === "") return;
      Object.assign(view.state, { moment: view.map.moments.length - 1, block: Number(jump.value) });
      showSelection(view);
    });
  };

  // Returns the selection in the address of the page, or the one with which the map opens.
  const linked = (number, map, cells) => {
    const link = new URLSearchParams(location.hash.slice(1));
    const within = (name, end, otherwise) => {
      const at = Number.parseInt(link.get(name) ?? "", 10);
      return link.get("map") === String(number) && at >= 0 && at < end ? at : otherwise;
    };
    return {
      moment: within("moment", map.moments.length, map.opening[0]),
      block: within("block", cells, map.opening[1]),
      mode: "type",
    };
  };

  const start = async (map, number, unpacked) => {
    const figure = document.querySelector(`figure[data-map="${number}"]`);
    const cells = map.stretches.reduce((sum, stretch) => sum + stretch.blocks, 0);
    const bytes = await Promise.all(map.sides.map((side) => unpacked(side.cells)));
    const view = {
      map,
      number,
      cells,
      figure,
      marks: [],
      places: places(map),
      state: linked(number, map, cells),
      slider: figure.querySelector("input[type=range]"),
      time: figure.querySelector("label.wide output"),
      readout: figure.querySelector(".readout"),
      frames: figure.querySelector("div.frames"),
    };
    view.sides = map.sides.map((side, at) => ({
      name: side.name,
      cells,
      moments: moments(new Uint8Array(bytes[at]), cells, map.moments.length),
      ...replace(view, at, `Pageblocks under ${side.name}`),
    }));
    view.difference = map.differ.length > 0 ? replace(view, "difference", "Pageblocks that differ") : null;
    control(view);
    show(view);
    // The pictures are there until the canvases are painted.
    [...view.sides, ...(view.difference === null ? [] : [view.difference])].forEach((drawn) => drawn.insert());
    return { state: view.state, cell: (side, moment, block) => cell(view.sides[side], moment, block), cells };
  };
  return { start };
})();
