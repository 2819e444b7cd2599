// Measures the page of `federate diff -o html` in a browser: `node benches/page.mjs [--check]`.
//
// 1,000 and 10,000 Deployments with a ConfigMap each, over 100 clusters; each also as its worst, in which every object and value
// differs from all others. A row per page: bytes, the time to write it, first paint, usable, the time from a key in the filter to
// its frame and the time of the main thread that it costs, for the changed objects, for all, and for all with a column per cluster.
// With --check it fails beyond the budgets: bytes, the order of paint and script, elements, and the time of the main thread, which
// another program's load hardly changes.
//
// Needs what tests/page/page.mjs needs; FEDERATE_BIN names a release build, or the times to write are not worth reading.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

import { browser, createRepo, federate, replaceInFile, run, scratch, writeFleet } from '../tests/page/harness.mjs';

const CLUSTERS = 100;
const PAGES = [
  { name: '1,000 × 100', objects: 1000, worst: false, bytes: 3e6, key: 50 },
  { name: '1,000 × 100, worst', objects: 1000, worst: true, bytes: 3e6, key: 50 },
  { name: '10,000 × 100', objects: 10000, worst: false, bytes: 15e6, key: 75 },
  { name: '10,000 × 100, worst', objects: 10000, worst: true, bytes: 15e6, key: 75 },
];
/** Elements of a page in which all objects are shown with a column per cluster. */
const MOST_NODES = 3000;
const KEYS = [...'app-123', ...'memb', ...'1.1'];

/** Numbers that look random and are the same in each run. */
function createRandom(seed) {
  let state = seed;
  return () => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) / 2 ** 32;
}

/** Every image, number of replicas and note becomes another. */
function scramble(folder) {
  const random = createRandom(7);
  const digest = () => Array.from({ length: 8 }, () => Math.floor(random() * 2 ** 32).toString(16).padStart(8, '0')).join('');
  const file = path.join(folder, 'templates.yaml');
  const text = fs.readFileSync(file, 'utf8')
    .replaceAll(/:1\.0"/g, () => `@sha256:${digest()}"`)
    .replaceAll(/replicas: \d+/g, () => `replicas: ${Math.floor(random() * 200)}`)
    .replaceAll('level: info', () => `level: ${digest()}`);
  fs.writeFileSync(file, text);
}

/** A release of some objects, and a policy that lets some move. */
function release(folder) {
  replaceInFile(folder, 'templates.yaml', /app-(\d*)7:1\.0/g, 'app-$17:1.1');
  replaceInFile(folder, 'clusters.yaml', 'name: member-001, labels: {tier: gold}', 'name: member-001, labels: {tier: plain}');
}

function sort(values) {
  return [...values].sort((one, other) => one - other);
}
const median = (values) => sort(values)[Math.floor(values.length / 2)];
const percentile = (values) => sort(values)[Math.floor(values.length * 0.95)];

/** Types a filter letter by letter, and takes it back: milliseconds to the frame, and of the main thread, per key. */
async function typeFilter(page, session) {
  const frames = [];
  const work = [];
  const measure = async () => (await session.send('Performance.getMetrics')).metrics.find(({ name }) => name === 'TaskDuration').value * 1000;
  await page.locator('#filter').focus();
  for (const key of [...KEYS, ...KEYS.map(() => 'Backspace')]) {
    const before = await measure();
    await page.evaluate(() => {
      globalThis.frame = new Promise((done) => {
        addEventListener('input', () => {
          const start = performance.now();
          requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
        }, { once: true, capture: true });
      });
    });
    await page.keyboard.press(key);
    frames.push(await page.evaluate(() => globalThis.frame));
    work.push(await measure() - before);
  }
  return { frames, work };
}

async function measure({ name, objects, worst }) {
  const repo = createRepo(`${objects}-${worst}`, (folder) => writeFleet(folder, CLUSTERS, objects), worst ? scramble : release);
  const started = performance.now();
  const html = run(federate, ['diff', '.', '--from', 'main', '-o', 'html', '--work-limit', '10000000000'], repo);
  const written = performance.now() - started;
  const file = path.join(scratch, `${objects}-${worst}.html`);
  fs.writeFileSync(file, html);

  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  await page.goto(pathToFileURL(file).href);
  while (!(await page.evaluate(() => document.documentElement.dataset.state === 'usable'))) await page.waitForTimeout(50);
  const times = await page.evaluate(() => ({
    paint: performance.getEntriesByName('first-contentful-paint')[0].startTime,
    start: performance.getEntriesByName('federate-start')[0].startTime,
    usable: performance.getEntriesByName('federate-usable')[0].startTime,
  }));
  const views = [await typeFilter(page, session)];
  for (const view of ['All', 'Clusters']) {
    await page.getByRole('button', { name: view, exact: true }).click();
    views.push(await typeFilter(page, session));
  }
  const { nodes, heap } = await page.evaluate(() => ({ nodes: document.querySelectorAll('*').length, heap: performance.memory.usedJSHeapSize }));
  await context.close();
  const frames = views.map(({ frames }) => frames);
  const work = views.map(({ work }) => work);
  return { name, bytes: html.length, written, ...times, frames, work, nodes, heap };
}

const rows = [['page', 'bytes', 'written', 'first paint', 'script starts', 'usable', 'key to frame, median / p95', 'main thread a key, median / p95', 'nodes', 'heap']];
const failures = [];
for (const page of PAGES) {
  const seen = await measure(page);
  const range = (values, summarize) => [Math.min(...values.map(summarize)), Math.max(...values.map(summarize))].map(Math.round).join(' – ');
  const worst = Math.max(...seen.work.map(percentile));
  rows.push([seen.name, seen.bytes, `${Math.round(seen.written)} ms`, ...[seen.paint, seen.start, seen.usable].map((time) => `${Math.round(time)} ms`),
    `${range(seen.frames, median)} / ${range(seen.frames, percentile)} ms`, `${range(seen.work, median)} / ${range(seen.work, percentile)} ms`, seen.nodes, `${Math.round(seen.heap / 1e6)} MB`]);
  if (seen.bytes > page.bytes) failures.push(`${page.name}: ${seen.bytes} bytes, not at most ${page.bytes}`);
  if (seen.paint > seen.start) failures.push(`${page.name}: nothing is painted before the script starts`);
  if (seen.nodes > MOST_NODES) failures.push(`${page.name}: ${seen.nodes} elements, not at most ${MOST_NODES}`);
  if (worst > page.key) failures.push(`${page.name}: a key costs ${Math.round(worst)} ms of the main thread, not at most ${page.key}`);
}
console.log(rows.map((row) => `| ${row.join(' | ')} |`).join('\n'));
await browser.close();
fs.rmSync(scratch, { recursive: true, force: true });
if (process.argv.includes('--check')) assert.deepEqual(failures, []);
else failures.forEach((failure) => console.log(failure));
