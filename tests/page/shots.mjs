// How pages look, compared with kept pictures: each page at three widths in both themes.
//
// A picture shows every character as the same box (font.mjs), so that it does not depend on the fonts of a machine, and is kept at
// an eighth of its size, where a pixel is the mean of 64: what is left are places, sizes and colours, and no differences between
// releases of a browser in how edges are smoothed. A page differs if more than one pixel in 500 does. UPDATE_SHOTS=1 renews the pictures.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';

import { WIDTHS, browser, createRepo, federate, replaceInFile, root, run, scratch, serve, test, until, writeFleet, writePage } from './harness.mjs';
import { buildFont } from './font.mjs';
import { decodePng, encodePng, shrinkPicture } from './png.mjs';

const folder = path.join(root, 'tests/page/shots');
const SCALE = 8;
/** How high a picture is at most, in pixels of the page. */
const MAX_HEIGHT = 2000;
/** How much a colour may differ, of 255. */
const COLOUR_TOLERANCE = 32;
/** How much a colour may differ in more than edges of texts, which browsers of other versions and machines smooth otherwise. */
const EDGE_TOLERANCE = 12;
/** The part of the pixels that may differ by more. */
const MAX_PART = 1 / 500;
/** The part of the pixels that may be in such edges. */
const MAX_EDGES = 1 / 150;

const STYLE = `
  @font-face { font-family: Boxes; src: url(data:font/ttf;base64,${buildFont().toString('base64')}); }
  *, *::before { font-family: Boxes !important; font-weight: 400 !important; letter-spacing: 0 !important; }
  html { scroll-behavior: auto !important; }
  ::-webkit-scrollbar { display: none; }
  input::placeholder, footer { visibility: hidden; }
  * { caret-color: transparent !important; }
`;

const repo = createRepo('shots', (folder) => writeFleet(folder, 5, 4), (folder) => {
  replaceInFile(folder, 'templates.yaml', ':1.0"', ':1.1"');
  replaceInFile(folder, 'templates.yaml', 'replicas: 7', 'replicas: 12');
  replaceInFile(folder, 'policy.yaml', '{matchLabels: {tier: gold}}', '{matchLabels: {tier: plain}}');
});

/** Dumps of the clusters, in which everything is missing but in one. */
function writeDump() {
  const dump = path.join(scratch, 'shots-dump');
  for (let at = 1; at <= 4; at += 1) fs.mkdirSync(path.join(dump, `member-00${at}`), { recursive: true });
  const level = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'settings-0', namespace: 'shop' }, data: { level: 'debug' } };
  level.metadata.managedFields = [{ manager: 'federate', operation: 'Apply', apiVersion: 'v1', time: '2026-11-20T08:00:00Z', fieldsType: 'FieldsV1', fieldsV1: { 'f:data': {} } }, { manager: 'kubectl-edit', operation: 'Update', apiVersion: 'v1', time: '2026-11-21T09:00:00Z', fieldsType: 'FieldsV1', fieldsV1: { 'f:data': { 'f:level': {} } } }];
  fs.writeFileSync(path.join(dump, 'member-001', 'live.yaml'), JSON.stringify(level));
  return dump;
}

const served = await serve(repo);
const pages = {
  plan: writePage('shot-plan', ['plan', '.', '-o', 'html'], repo),
  diff: writePage('shot-diff', ['diff', 'HEAD', '.', '-o', 'html'], repo),
  whatif: writePage('shot-whatif', ['whatif', '.', '--lose', 'member-002', '-o', 'html'], repo),
  losses: writePage('shot-losses', ['whatif', '.', '--each', 'cluster', '-o', 'html'], repo),
  drift: writePage('shot-drift', ['drift', '.', '--observed', writeDump(), '-o', 'html', '--quiet'], repo, [0, 1, 2]),
  migrate: writePage('shot-migrate', ['migrate', '.', '--to', 'kubeadmiral', '--prove', '20', '-o', 'html'], repo, [0, 1]),
  check: writePage('shot-check', ['check', '.', '-o', 'html'], repo, [0, 1, 2]),
  serve: served.url,
};

/** A page as a picture of few pixels. */
async function takeShot(url, width, theme, change = '') {
  // The driver's style is not the page's: its policy would refuse it.
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: theme, bypassCSP: true, reducedMotion: 'reduce' });
  const page = await context.newPage();
  await page.goto(url);
  await until(page, () => document.documentElement.dataset.state === 'usable');
  await page.addStyleTag({ content: STYLE + change });
  await page.evaluate(() => document.fonts.load('14px Boxes'));
  assert.ok(await page.evaluate(() => document.fonts.check('14px Boxes')), 'the font is not used');
  await page.evaluate(() => new Promise((done) => setTimeout(done, 250)));
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  const clip = { x: 0, y: 0, width: width - (width % SCALE), height: Math.min(MAX_HEIGHT, height - (height % SCALE)) };
  const picture = await page.screenshot({ fullPage: true, clip, animations: 'disabled' });
  await context.close();
  return shrinkPicture(decodePng(picture), SCALE);
}

/** What is wrong with a picture; empty if it is as it was kept. */
function compareShots(shot, kept) {
  if (shot.width !== kept.width) return `it is ${SCALE * shot.width} pixels wide, and was ${SCALE * kept.width}`;
  // A page may be a line longer where a browser rounds otherwise.
  if (Math.abs(shot.height - kept.height) > 1) return `it is ${SCALE * shot.height} pixels high, and was ${SCALE * kept.height}`;
  const height = Math.min(shot.height, kept.height);
  let differing = 0;
  let smoothed = 0;
  let first = '';
  for (let pixel = 0; pixel < shot.width * height; pixel += 1) {
    const difference = Math.max(...[0, 1, 2].map((channel) => Math.abs(shot.colours[3 * pixel + channel] - kept.colours[3 * pixel + channel])));
    if (difference > EDGE_TOLERANCE) smoothed += 1;
    if (difference <= COLOUR_TOLERANCE) continue;
    if (!first) first = `first at ${SCALE * (pixel % shot.width)}, ${SCALE * Math.floor(pixel / shot.width)} by ${difference}`;
    differing += 1;
  }
  if (smoothed > MAX_EDGES * shot.width * height) return `${smoothed} of ${shot.width * height} pixels differ a little`;
  return differing > MAX_PART * shot.width * height ? `${differing} of ${shot.width * height} pixels differ, ${first}` : '';
}

for (const [name, url] of Object.entries(pages)) {
  for (const width of WIDTHS) {
    for (const theme of ['light', 'dark']) {
      await test(`${name} at ${width}, ${theme} looks as it did`, async () => {
        const shot = await takeShot(url, width, theme);
        const file = path.join(folder, `${name}-${width}-${theme}.png`);
        if (process.env.UPDATE_SHOTS) {
          fs.mkdirSync(folder, { recursive: true });
          fs.writeFileSync(file, encodePng(shot));
        }
        const problem = compareShots(shot, decodePng(fs.readFileSync(file)));
        if (problem) fs.writeFileSync(path.join(process.env.KEEP_PAGES || scratch, `${name}-${width}-${theme}-now.png`), encodePng(shot));
        assert.equal(problem, '', `${problem}; if that is meant, UPDATE_SHOTS=1 renews ${file}`);
      });
    }
  }
}

// A comparison that never fails shows nothing.
for (const [what, change, name = 'diff'] of [
  // What is lost is red.
  ['another colour', ':root { --bad: #0a7a0a !important; --bad-on: #d8f5d8 !important; }', 'whatif'],
  ['another shade', ':root { --leaves-on: light-dark(#fff, #000) !important; }'],
  ['a block that moved', '.cards { margin-top: 24px; }'],
  ['a column that is wider', '.cell.total { padding-inline-end: 40px !important; width: 140px !important; }'],
  ['a block that is gone', '.totals { display: none; }'],
]) {
  await test(`${what} is noticed`, async () => {
    const noticed = [];
    for (const width of WIDTHS) {
      const kept = decodePng(fs.readFileSync(path.join(folder, `${name}-${width}-light.png`)));
      noticed.push(compareShots(await takeShot(pages[name], width, 'light', change), kept));
    }
    assert.ok(noticed.some((problem) => problem !== ''), `nothing was noticed at ${WIDTHS}`);
  });
}

await served.end();
