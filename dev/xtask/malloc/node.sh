#!/bin/sh
# Node under the malloc: buffers outside of its own heap, compression in its threads, and a worker.
set -eu

cat >program.js <<'END'
const crypto = require('crypto');
const zlib = require('zlib');
const { promisify } = require('util');
const { Worker, isMainThread, parentPort } = require('worker_threads');

const hash = (bytes) => crypto.createHash('sha256').update(bytes).digest('hex');
if (!isMainThread) {
    const list = Array.from({ length: 100000 }, (_, n) => ({ n, text: `text ${n}` }));
    parentPort.postMessage(hash(JSON.stringify(list)));
} else {
    (async () => {
        const bytes = Buffer.concat(Array.from({ length: 300 }, (_, n) => Buffer.alloc(1000 + n * 37, n)));
        const packed = await Promise.all([1, 5, 9].map((level) => promisify(zlib.deflate)(bytes, { level })));
        const whole = await Promise.all(packed.map((part) => promisify(zlib.inflate)(part)));
        console.log(whole.map(hash), packed.map((part) => part.length));
        const keys = await Promise.all([1, 2, 3, 4].map((n) => promisify(crypto.scrypt)(`${n}`, 'salt', 32)));
        console.log(keys.map((key) => key.toString('hex')));
        let map = new Map();
        for (let n = 0; n < 200000; n++) map.set(`key ${n}`, n * n % 1009);
        console.log([...map.values()].reduce((sum, value) => sum + value, 0));
        new Worker(__filename).on('message', (said) => console.log(said));
    })();
}
END
node program.js
