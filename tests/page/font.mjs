// A font in which every character is the same box: what a page looks like with it does not depend on the fonts of a machine.

/** The font as a file of the TrueType format. */
export function buildFont() {
  const units = 1000;
  const [advance, left, right, bottom, top] = [520, 40, 480, 0, 560];
  const number = (bytes, value) => {
    const part = Buffer.alloc(bytes);
    part.writeUIntBE(value < 0 ? value + 2 ** (8 * bytes) : value, 0, bytes);
    return part;
  };
  const u16 = (...values) => Buffer.concat(values.map((value) => number(2, value)));
  const u32 = (...values) => Buffer.concat(values.map((value) => number(4, value)));
  // Both glyphs, the missing one and the box, are this outline of four points.
  const glyph = Buffer.concat([u16(1, left, bottom, right, top, 3, 0), Buffer.from([1, 1, 1, 1]), u16(left, right - left, 0, left - right), u16(bottom, 0, top - bottom, 0)]);
  // All characters but spaces and control characters are the box.
  const groups = [[0x20, 0x20, 2], [0x21, 0x9f, 1], [0xa0, 0xa0, 2], [0xa1, 0x10ffff, 1]];
  const many = Buffer.concat([u16(13, 0), u32(16 + 12 * groups.length, 0, groups.length), ...groups.map((group) => u32(...group))]);
  const cmap = Buffer.concat([u16(0, 1), u16(3, 10), u32(12), many]);
  const name = (text) => Buffer.from(text, 'utf16le').swap16();
  const names = [[1, 'Boxes'], [2, 'Regular'], [4, 'Boxes'], [6, 'Boxes']];
  let at = 0;
  const records = names.map(([id, text]) => {
    const record = u16(3, 1, 0x409, id, name(text).length, at);
    at += name(text).length;
    return record;
  });
  const tables = {
    'OS/2': Buffer.concat([u16(4, advance, 400, 5, 0, 650, 600, 0, 75, 650, 600, 0, 350, 50, 300, 0), Buffer.alloc(10), u32(1, 0, 0, 0), Buffer.from('TEST'), u16(0x40, 0x20, 0xffff, 750, -250, 0, 750, 250), u32(1, 0), u16(500, 700, 0, 0x20, 1)]),
    cmap,
    glyf: Buffer.concat([glyph, Buffer.alloc((4 - (glyph.length % 4)) % 4), glyph, Buffer.alloc((4 - (glyph.length % 4)) % 4)]),
    head: Buffer.concat([u32(0x10000, 0x10000, 0, 0x5f0f3cf5), u16(0, units), u32(0, 0, 0, 0), u16(left, bottom, right, top, 0, 8, 2, 1, 0)]),
    hhea: Buffer.concat([u32(0x10000), u16(750, -250, 0, advance, left, advance - right, right, 1, 0, 0, 0, 0, 0, 0, 0, 3)]),
    hmtx: u16(advance, left, advance, left, advance, 0),
    loca: u32(0, glyph.length + ((4 - (glyph.length % 4)) % 4), 2 * (glyph.length + ((4 - (glyph.length % 4)) % 4)), 2 * (glyph.length + ((4 - (glyph.length % 4)) % 4))),
    maxp: Buffer.concat([u32(0x10000), u16(3, 4, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0)]),
    name: Buffer.concat([u16(0, names.length, 6 + 12 * names.length), ...records, ...names.map(([, text]) => name(text))]),
    post: Buffer.concat([u32(0x30000, 0), u16(-100, 50), u32(0, 0, 0, 0, 0)]),
  };
  const sum = (data) => {
    let total = 0;
    for (let place = 0; place + 4 <= data.length; place += 4) total = (total + data.readUInt32BE(place)) >>> 0;
    return total;
  };
  const entries = Object.entries(tables).map(([tag, data]) => [tag, data, Buffer.concat([data, Buffer.alloc((4 - (data.length % 4)) % 4)])]);
  let offset = 12 + 16 * entries.length;
  const directory = entries.map(([tag, data, padded]) => {
    const entry = Buffer.concat([Buffer.from(tag.padEnd(4)), u32(sum(padded), offset, data.length)]);
    offset += padded.length;
    return entry;
  });
  const power = 2 ** Math.floor(Math.log2(entries.length));
  return Buffer.concat([u32(0x10000), u16(entries.length, 16 * power, Math.log2(power), 16 * (entries.length - power)), ...directory, ...entries.map(([, , padded]) => padded)]);
}
