// The page of the loop: a loop over a file as it runs, and what a loop with clusters has to say.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import zlib from 'node:zlib';

import { HOSTILE, checkEverywhere, checkHostile, federate, keep, open, openFirst, readData, scratch, test, until, writeFleet } from './harness.mjs';

/** A repo, and a Sync that commits what it renders. */
function createLoop(name) {
  const folder = path.join(scratch, name);
  const repo = path.join(folder, 'repo');
  fs.mkdirSync(repo, { recursive: true });
  writeFleet(repo, 2, 2);
  const git = (...args) => execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], { cwd: repo, stdio: 'pipe' });
  git('init', '-q', '-b', 'main');
  git('add', '-A');
  git('commit', '-q', '-m', 'first');
  fs.writeFileSync(path.join(folder, 'sync.yaml'), `apiVersion: federate.dev/v1alpha1
kind: Sync
metadata: {name: web, namespace: shop}
spec:
  source: {url: ${repo}, ref: {branch: main}}
  interval: 1s
  commit: {branch: rendered}
`);
  return { folder, repo, git };
}

/** Runs a loop until the test is over. */
async function runLoop(folder) {
  const child = spawn(federate, ['sync', '-f', 'sync.yaml', '--state', 'state', '--status-listen', '127.0.0.1:0'], { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, GIT_AUTHOR_NAME: 't', GIT_AUTHOR_EMAIL: 't@example.com', GIT_COMMITTER_NAME: 't', GIT_COMMITTER_EMAIL: 't@example.com' } });
  const url = await new Promise((resolve, reject) => {
    let text = '';
    child.stderr.on('data', (part) => {
      text += part;
      const found = /listening for the status page.*?(127\.0\.0\.1:\d+)|(127\.0\.0\.1:\d+).*?listening for the status page|listening for the status page[^\n]*address=(\S+)/.exec(text);
      if (found) resolve(`http://${found[1] || found[2] || found[3]}/`);
    });
    child.on('exit', (code) => reject(new Error(`federate sync ended with ${code}: ${text}`)));
  });
  const ended = new Promise((resolve) => child.on('exit', resolve));
  return { url, server: url, end: () => (child.kill('SIGTERM'), ended) };
}

const loop = createLoop('loop');
const running = await runLoop(loop.folder);

await test('the loop: its page follows what it does, and asks nobody else', async () => {
  const { page, complaints, close } = await open(running.url, { server: running.server });
  // It is asked for every ten seconds; a visit sees what is there.
  for (let tries = 0; tries < 100 && !/1 Sync runs as it should/.test(await page.locator('#sentence').textContent()); tries += 1) {
    await new Promise((done) => setTimeout(done, 200));
    await page.goto(running.url);
    await until(page, () => document.documentElement.dataset.state === 'usable');
  }
  assert.equal(await page.locator('#sentence').textContent(), '1 Sync runs as it should.');
  assert.equal(await page.locator('.tile[data-flag=ready] .number').textContent(), '1');
  const data = await readData(page);
  const syncs = await (await fetch(running.url + 'syncs')).json();
  assert.equal(data.kind, 'SyncPage');
  assert.deepEqual(data.syncs[0].metadata, syncs[0].metadata);
  await openFirst(page);
  const pane = await page.locator('#pane').textContent();
  for (const text of ['Sync shop/web', 'Ready=True ReconciliationSucceeded', 'main@sha1:', 'rendered at ', 'History']) assert.ok(pane.includes(text), `${text} is not in ${pane}`);
  // What happens is shown without a visit, and what was opened stays open.
  fs.writeFileSync(path.join(loop.repo, 'broken.yaml'), 'a: [');
  loop.git('add', '-A');
  loop.git('commit', '-q', '-m', 'broken');
  for (let tries = 0; tries < 3; tries += 1) {
    try {
      await until(page, () => document.getElementById('sentence').textContent === '1 of 1 Sync fails.');
      break;
    } catch (error) {
      if (tries === 2) throw error;
    }
  }
  assert.match(await page.locator('#pane').textContent(), /broken\.yaml/);
  assert.match(await page.locator('#failures').locator('..').textContent(), /✕ shop\/web Stalled=True: BuildFailed/);
  assert.deepEqual(complaints, []);
  await close();
});

await checkEverywhere('loop', running.url, [['start', async () => {}], ['pane', openFirst]], running);

const page = await (await fetch(running.url, { headers: { Accept: 'text/html' } })).text();
const data = JSON.parse(zlib.inflateRawSync(Buffer.from(/id="data">([^<]*)</.exec(page)[1], 'base64')));

/** The same page with other data: a loop whose clusters have something to say. */
function writeWith(name, syncs) {
  const text = zlib.deflateRawSync(JSON.stringify({ ...data, time: '2026-11-27T12:00:00Z', syncs })).toString('base64');
  const file = path.join(keep || scratch, name + '.html');
  fs.writeFileSync(file, page.replace(/id="data">[^<]*</, `id="data">${text}<`).replace(/ data-poll="\d+"/, ''));
  return pathToFileURL(file).href;
}

const condition = (status, reason, message) => [{ type: 'Ready', status, reason, message, lastTransitionTime: '2026-11-27T11:00:00.123Z', observedGeneration: 1 }];

/** Syncs with everything that is known of one. */
function describeSyncs(text, clusters) {
  return [
    {
      flags: ['failed', 'drifted', 'leftBehind', 'waiting'],
      metadata: { name: 'web', namespace: 'shop' },
      suspended: false,
      created: '2026-11-24T12:00:00Z',
      status: {
        observedGeneration: 1,
        conditions: condition('False', 'ReconciliationFailed', `eu-1: ${text}`),
        lastAttemptedRevision: 'main@sha1:2222222222222222222222222222222222222222',
        lastAppliedRevision: 'main@sha1:1111111111111111111111111111111111111111',
        clusters: { ready: clusters, modified: 1, outOfSync: 0, errApplied: 1 },
        rollout: { revision: '2222', stage: 'canary', updated: 1, approval: 'v2' },
        drift: { objects: 2, clusters: 1, first: text, changed: '2026-11-27T10:00:00Z' },
        window: { open: false, opens: '2026-11-28T01:00:00Z', waiting: 'main@sha1:2222' },
        unschedulable: 1,
        replicasMoved: 0,
        orphans: { objects: 3, applySets: 1, clusters: ['ap-1'] },
        history: [
          { time: '2026-11-27T11:00:00.5Z', revision: 'main@sha1:2222', reason: 'ReconciliationFailed', message: text },
          { time: '2026-11-26T11:00:00Z', revision: 'main@sha1:1111', reason: 'ReconciliationSucceeded', message: 'applied' },
        ],
      },
      clusters: [
        { name: 'eu-1', state: 'errApplied', message: text, failures: 3, retryAt: '2026-11-27T12:01:00.9Z' },
        { name: 'eu-2', state: 'modified', drifted: 2, drift: text, orphans: 3, driftedObjects: [
          { object: { apiVersion: 'apps/v1', kind: 'Deployment', namespace: 'shop', name: 'web' }, action: 'update', restartsPods: true, fields: [{ path: '/spec/replicas', manager: text, time: '2026-11-27T10:00:00Z' }] },
          { object: { apiVersion: 'v1', kind: 'ConfigMap', namespace: 'shop', name: 'gone' }, action: 'create', restartsPods: false, fields: [] },
        ] },
      ],
      readyClusters: Array.from({ length: clusters }, (_, at) => `us-${at + 1}`),
      contentions: [`Deployment shop/web: ${text}`],
    },
    { flags: ['ready'], metadata: { name: 'db', namespace: 'data' }, suspended: false, status: { observedGeneration: 1, conditions: condition('True', 'ReconciliationSucceeded', 'applied'), unschedulable: 0, replicasMoved: 0 }, clusters: [], readyClusters: ['eu-1', 'eu-2'], contentions: [] },
  ];
}

const rich = writeWith('loop-clusters', describeSyncs('connection refused', 4));
const wide = writeWith('loop-wide', describeSyncs('connection refused', 60));

await checkEverywhere('loop with clusters', rich, [['start', async () => {}], ['pane', openFirst], ['no match', async (page) => {
  await page.keyboard.press('Escape');
  await page.locator('#filter').fill('nothing-is-called-so');
}]]);
await checkEverywhere('loop with many clusters', wide, [['start', async () => {}]]);

await test('the loop: everything that is known of a Sync is shown', async () => {
  const { page, complaints, close } = await open(rich + '#Sync/shop/web');
  const pane = await page.locator('#pane').textContent();
  for (const text of ['Ready=False ReconciliationFailed: eu-1: connection refused since 2026-11-27T11:00:00Z', '2026-11-24T12:00:00Z, 3 days ago', 'canary, 1 cluster updated, waits for the approval v2', 'closed; the next one opens at 2026-11-28T01:00:00Z', 'main@sha1:2222', '3 objects, 1 ApplySet', 'ap-1', '4 ready, 1 drifted, 1 failed', '3 failures in a row', '2026-11-27T12:01:00Z', '3 objects left behind', '/spec/replicas connection refused, 2026-11-27T10:00:00Z', 'its pods restart', 'it is missing', '4 ready clusters', 'federate sync tree web -n shop']) assert.ok(pane.includes(text), `${text} is not in ${pane}`);
  await page.keyboard.press('Escape');
  const sections = await page.locator('#main').textContent();
  for (const text of ['≠ 2', '✕ failed', '− left', 'ReconciliationSucceeded']) assert.ok(sections.includes(text), `${text} is not in ${sections}`);
  assert.deepEqual(await page.locator('.matrix-head .name').allTextContents(), ['ap-1', 'eu-1', 'eu-2', 'us-1', 'us-2', 'us-3', 'us-4']);
  await page.keyboard.press('/');
  await page.keyboard.type('gone');
  assert.match(await page.locator('.status').textContent(), /^1 of 2 Syncs$/);
  assert.deepEqual(complaints, []);
  await close();
});

await test('the loop: by keyboard to a Sync and back', async () => {
  const { page, complaints, close } = await open(rich);
  for (let stop = 0; stop < 30 && !(await page.evaluate(() => document.activeElement.closest('.matrix-rows') !== null)); stop += 1) await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'pane-title');
  await page.keyboard.press('Escape');
  assert.ok(await page.evaluate(() => document.activeElement.closest('.matrix-rows') !== null));
  const pdf = await page.pdf({ format: 'A4', landscape: true });
  assert.ok((pdf.toString('latin1').match(/\/Type\s*\/Page\b/g) || []).length <= 6);
  assert.deepEqual(complaints, []);
  await close();
});

await test('the loop: text of a cluster is text', async () => {
  const { page, complaints, close } = await open(writeWith('loop-hostile', describeSyncs(HOSTILE, 2)) + '#Sync/shop/web');
  await checkHostile(page, complaints);
  await close();
});

assert.equal(await running.end(), 0);
