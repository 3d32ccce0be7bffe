// What the page does when it is opened: unpacks the numbers and the library, draws, and copies the command when asked.
const freehold = { data: null, charts: () => [], maps: [], ready: false };

const unpacked = async (text) => {
  const squeezed = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([squeezed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
};

const copy = async (button) => {
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    // A page that was opened as a file may not be allowed to: then it is at least selected.
    getSelection().selectAllChildren(source);
    button.textContent = "Selected";
  }
};

const open = async () => {
  document
    .querySelectorAll("button[data-copy]")
    .forEach((button) => button.addEventListener("click", () => copy(button)));
  const data = document.getElementById("data");
  if (data !== null) {
    freehold.data = JSON.parse(data.textContent);
    freehold.maps = await Promise.all(freehold.data.maps.map((map, number) => maps.start(map, number, unpacked)));
  }
  const library = document.getElementById("library");
  if (library !== null) {
    const script = document.createElement("script");
    script.textContent = new TextDecoder().decode(await unpacked(library.textContent));
    document.head.append(script);
    freehold.charts = plots.start(freehold.data.plots);
  }
  // In milliseconds since the page began to load.
  freehold.opened = performance.now();
  freehold.ready = true;
};

// Numbers, tables and sentences are there without what is drawn.
const failed = (error) => {
  const words = "This browser cannot draw the plots and maps of this page; their numbers are below them.";
  document.querySelector("main").prepend(Object.assign(document.createElement("p"), { textContent: words }));
  document.querySelectorAll(".plots details").forEach((details) => (details.open = true));
  console.error(error);
};

window.freehold = freehold;
open().catch(failed);
