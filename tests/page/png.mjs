// Pictures as PNG, of 8 bits a channel: enough to make screenshots small, and to read them again.

import zlib from 'node:zlib';

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/** The colours of a picture, as red, green and blue of each pixel. */
export function decodePng(file) {
  let [at, width, height, channels] = [8, 0, 0, 0];
  const parts = [];
  while (at < file.length) {
    const [length, kind] = [file.readUInt32BE(at), file.toString('latin1', at + 4, at + 8)];
    const data = file.subarray(at + 8, at + 8 + length);
    if (kind === 'IHDR') {
      [width, height] = [data.readUInt32BE(0), data.readUInt32BE(4)];
      channels = { 2: 3, 6: 4 }[data[9]];
      if (data[8] !== 8 || !channels || data[12] !== 0) throw new Error('a picture of another kind');
    } else if (kind === 'IDAT') parts.push(data);
    at += 12 + length;
  }
  const raw = zlib.inflateSync(Buffer.concat(parts));
  const stride = width * channels;
  const rows = Buffer.alloc(stride * height);
  for (let y = 0; y < height; y += 1) {
    const filter = raw[y * (stride + 1)];
    for (let x = 0; x < stride; x += 1) {
      const left = x < channels ? 0 : rows[y * stride + x - channels];
      const up = y === 0 ? 0 : rows[(y - 1) * stride + x];
      const corner = y === 0 || x < channels ? 0 : rows[(y - 1) * stride + x - channels];
      const guess = [0, left, up, (left + up) >> 1, filter === 4 ? paeth(left, up, corner) : 0][filter];
      rows[y * stride + x] = raw[y * (stride + 1) + 1 + x] + guess;
    }
  }
  const colours = Buffer.alloc(3 * width * height);
  for (let pixel = 0; pixel < width * height; pixel += 1) rows.copy(colours, 3 * pixel, channels * pixel, channels * pixel + 3);
  return { width, height, colours };
}

function paeth(left, up, corner) {
  const [a, b, c] = [left, up, corner].map((one) => Math.abs(left + up - corner - one));
  return a <= b && a <= c ? left : b <= c ? up : corner;
}

/** A picture as a file. */
export function encodePng({ width, height, colours }) {
  const raw = Buffer.alloc((3 * width + 1) * height);
  for (let y = 0; y < height; y += 1) {
    // Each row as its difference from the one above, which is mostly nothing.
    raw[y * (3 * width + 1)] = y === 0 ? 0 : 2;
    for (let x = 0; x < 3 * width; x += 1) raw[y * (3 * width + 1) + 1 + x] = colours[y * 3 * width + x] - (y === 0 ? 0 : colours[(y - 1) * 3 * width + x]);
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2, 0, 0, 0], 8);
  return Buffer.concat([SIGNATURE, createChunk('IHDR', head), createChunk('IDAT', zlib.deflateSync(raw, { level: 9 })), createChunk('IEND', Buffer.alloc(0))]);
}

function createChunk(kind, data) {
  const body = Buffer.concat([Buffer.from(kind, 'latin1'), data]);
  const chunk = Buffer.alloc(body.length + 8);
  chunk.writeUInt32BE(data.length, 0);
  body.copy(chunk, 4);
  chunk.writeUInt32BE(zlib.crc32 ? zlib.crc32(body) : computeCrc(body), body.length + 4);
  return chunk;
}

/** The checksum of a chunk; older releases of Node have no function for it. */
function computeCrc(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return (crc ^ 0xffffffff) >>> 0;
}

/** A picture at a part of its size: each pixel is the mean of `scale` × `scale`. */
export function shrinkPicture({ width, height, colours }, scale) {
  const [wide, high] = [Math.floor(width / scale), Math.floor(height / scale)];
  const sums = new Uint32Array(3 * wide * high);
  for (let y = 0; y < high * scale; y += 1) {
    const row = 3 * wide * Math.floor(y / scale);
    for (let x = 0; x < wide * scale; x += 1) {
      const [from, to] = [3 * (y * width + x), row + 3 * Math.floor(x / scale)];
      sums[to] += colours[from];
      sums[to + 1] += colours[from + 1];
      sums[to + 2] += colours[from + 2];
    }
  }
  return { width: wide, height: high, colours: Buffer.from(sums.map((sum) => Math.round(sum / scale / scale))) };
}
