// Three worker threads that parse and print JSON, and fill and compress buffers.
'use strict';
const { Worker, isMainThread, workerData } = require('node:worker_threads');
const zlib = require('node:zlib');

const WORKERS = 3;

function documents(round) {
  const list = [];
  for (let number = 0; number < 2000; number++) {
    list.push({ number, name: `document ${number * round}`, words: Array(number % 20).fill('word'), score: number / 7 });
  }
  return list;
}

function buffers(round) {
  const kept = new Map();
  for (let number = 0; number < 1000; number++) {
    const size = 16 << (number * 7 + round) % 12;
    kept.set(number * 31 % 200, Buffer.alloc(size, number));
  }
  return Buffer.concat([...kept.values()]);
}

function work(rounds) {
  let total = 0;
  for (let round = 1; round <= rounds; round++) {
    const text = JSON.stringify(documents(round));
    total += JSON.parse(text).length;
    total += zlib.gunzipSync(zlib.gzipSync(buffers(round), { level: 1 })).length;
  }
  return total;
}

if (isMainThread) {
  const rounds = Number(process.argv[2]);
  for (let number = 0; number < WORKERS; number++) {
    const worker = new Worker(__filename, { workerData: rounds });
    worker.on('error', (error) => { throw error; });
  }
} else {
  work(workerData);
}
