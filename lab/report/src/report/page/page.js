// What the page does when it is opened: unpacks the numbers, draws the maps, and copies the command when asked.
const freehold = { data: null, maps: [], ready: false };

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
    plots.start(freehold.data.plots);
    freehold.maps = await Promise.all(freehold.data.maps.map((map, number) => maps.start(map, number, unpacked)));
  }
  // In milliseconds since the page began to load.
  freehold.opened = performance.now();
  freehold.ready = true;
};

// Tables, sentences and plots are there without the script.
const failed = (error) => {
  const words = "This browser cannot draw the memory maps of this page.";
  document.querySelector("main").prepend(Object.assign(document.createElement("p"), { textContent: words }));
  console.error(error);
};

window.freehold = freehold;
open().catch(failed);
