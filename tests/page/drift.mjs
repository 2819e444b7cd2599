// The page of `drift`: what differs, who changed it, and what federate would do, from a dump of three clusters.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';

import { HOSTILE, checkEverywhere, checkHostile, createRepo, federate, findViolations, open, openFirst, readData, run, serve, test, until, writeFleet, writePage } from './harness.mjs';
import { find, manage, write, writeDump } from './dump.mjs';

function editCluster(at, objects, text) {
  write(find(objects, 'ConfigMap', 'settings-0'), '/data/level', text, 'kubectl-edit', `2026-11-2${at}T09:00:00Z`);
  write(find(objects, 'ConfigMap', 'settings-1'), '/data/level', 'trace', 'kubectl-edit', '2026-11-22T09:00:00Z');
  write(find(objects, 'Deployment', 'app-0'), '/spec/replicas', 9, 'kubectl-scale', '2026-11-23T23:12:00Z');
  return objects.filter((object) => at !== 1 || object.metadata.name !== 'settings-2');
}

const repo = createRepo('drift', (folder) => writeFleet(folder, 4, 5), () => undefined);
// The last cluster has no dump: nothing is known of it.
const dump = writeDump('drift-dump', repo, (cluster, objects) => (cluster === 'member-004' ? undefined : editCluster(Number(cluster.slice(-1)), objects, 'debug')));
const hostile = writeDump('drift-hostile-dump', repo, (cluster, objects) => {
  const edited = editCluster(Number(cluster.slice(-1)), objects, HOSTILE);
  for (const object of edited) for (const entry of object.metadata.managedFields.slice(1)) entry.manager = HOSTILE;
  return edited;
});
const wide = createRepo('drift-wide', (folder) => writeFleet(folder, 30, 40), () => undefined);
const wideDump = writeDump('drift-wide-dump', wide, (cluster, objects) => editCluster(Number(cluster.slice(-1)), objects.filter((object) => object.kind !== 'ConfigMap' || Number(cluster.slice(-3)) <= 3), 'debug'));

const COMMAND = ['drift', '.', '--observed', dump];

/** Writes a page of a run that may end with any code: a cluster that is not known is 2. */
function writeDriftPage(name, folder, observed) {
  return writePage(name, ['drift', '.', '--observed', observed, '-o', 'html', '--quiet'], folder, [0, 1, 2]);
}

const pages = {
  drift: writeDriftPage('drift', repo, dump),
  wide: writeDriftPage('drift-wide', wide, wideDump),
  hostile: writeDriftPage('drift-hostile', repo, hostile),
};

await checkEverywhere('drift', pages.drift, [['start', async () => {}], ['pane', openFirst], ['no match', async (page) => {
  await page.keyboard.press('Escape');
  await page.locator('#filter').fill('nothing-is-called-so');
}]]);
await checkEverywhere('drift of many clusters', pages.wide, [['start', async () => {}], ['clusters', async (page) => {
  await page.getByRole('button', { name: 'Clusters', exact: true }).click();
}]]);

await test('drift: the page says what drift -o json says, and its data is that', async () => {
  const { page, complaints, close } = await open(pages.drift);
  const report = JSON.parse(run(federate, [...COMMAND, '-o', 'json', '--quiet'], repo, [2]));
  const data = await readData(page);
  assert.equal(data.kind, 'DriftPage');
  assert.deepEqual(data.actions, report.actions.map(({ result, ...action }) => action));
  const title = await page.locator('#sentence').textContent();
  assert.match(title, new RegExp(`^${report.actions.length} objects drifted in 3 clusters`));
  assert.match(title, /1 cluster could not be read/);
  const verdict = await page.locator('#verdict').textContent();
  assert.match(verdict, /member-004 could not be read/);
  assert.match(verdict, /kubectl-edit a person's tool 6 fields of 6 objects in 3 clusters, from 2026-11-21T09:00:00Z to 2026-11-23T09:00:00Z/);
  assert.match(verdict, /− missing ConfigMap shop\/settings-2 in 1 cluster/);
  assert.match(verdict, /\+ 1 object would be created/);
  // Every cell is the number of fields in a cluster.
  const cells = await page.locator('.row.item', { hasText: 'settings-0' }).locator('.cell.data.changed').count();
  assert.equal(cells, 3);
  assert.match(await page.locator('.row.item', { hasText: 'settings-2' }).textContent(), /− missing/);
  assert.match(await page.locator('.matrix-head .not-ready').textContent(), /member-004, could not be read/);
  assert.deepEqual(complaints, []);
  await close();
});

await test('drift: an object shows every field, both values, who changed it and when, and what would be done', async () => {
  const { page, close } = await open(pages.drift + '#configmap/shop/settings-0');
  const pane = await page.locator('#pane').textContent();
  for (const text of ['/data/level', 'info', 'debug', 'kubectl-edit, 2026-11-21T09:00:00Z to 2026-11-23T09:00:00Z', 'in 3 clusters', 'federate drift --correct puts these fields back']) assert.ok(pane.includes(text), `${text} is not in ${pane}`);
  await page.keyboard.press('j');
  assert.notEqual(await page.locator('#pane-title').textContent(), 'ConfigMap shop/settings-0');
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('#pane').isVisible(), false);
  await close();
});

await test('drift: the filter finds a manager, a tile what is missing, and fields are grouped by who changed them', async () => {
  const { page, close } = await open(pages.drift);
  await page.keyboard.press('/');
  await page.keyboard.type('kubectl-scale');
  assert.match(await page.locator('.row.item .cell.first').first().getAttribute('title'), /app-0$/);
  await page.keyboard.press('Escape');
  await page.locator('.tile[data-flag=missing]').click();
  assert.match(await page.locator('.status').textContent(), /^1 of \d+ objects$/);
  await page.locator('.tile[data-flag=missing]').click();
  await new Promise((done) => setTimeout(done, 200));
  const values = await page.locator('#values').textContent();
  assert.match(values, /ConfigMap \/data\/level · kubectl-edit/);
  await page.locator('#values summary', { hasText: '/data/level' }).first().click();
  assert.match(await page.locator('#values table').first().textContent(), /RenderedLiveChanged by/);
  await close();
});

await test('drift: text of a cluster is text', async () => {
  const { page, complaints, close } = await open(pages.hostile + '#ConfigMap/shop/settings-0');
  await checkHostile(page, complaints);
  await close();
});

await test('drift: prints, and can be read without scripts', async () => {
  const { page, close } = await open(pages.drift);
  const pdf = await page.pdf({ format: 'A4', landscape: true });
  assert.ok((pdf.toString('latin1').match(/\/Type\s*\/Page\b/g) || []).length <= 6);
  await close();
  const plain = await open(pages.drift, { javaScriptEnabled: false });
  assert.match(await plain.page.locator('#verdict').textContent(), /kubectl-edit/);
  assert.equal(await plain.page.locator('#matrix').isVisible(), false);
  await plain.close();
});

await test('drift: nothing that drifted is said so', async () => {
  const clean = writeDump('drift-clean-dump', repo, (_, objects) => objects);
  const { page, complaints, close } = await open(writeDriftPage('drift-clean', repo, clean));
  assert.equal(await page.locator('#sentence').textContent(), 'No drift.');
  assert.match(await page.locator('#matrix').textContent(), /Nothing drifted\./);
  assert.deepEqual(complaints, []);
  await close();
});

await test('drift: a changed Secret is named, and no value of it is in the page', async () => {
  const secret = createRepo('drift-secret', (folder) => {
    writeFleet(folder, 2, 1);
    fs.writeFileSync(path.join(folder, 'secret.yaml'), `apiVersion: v1
kind: Secret
metadata: {name: token, namespace: shop}
stringData: {password: hunter2}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: token, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Secret}]
  placement: {}
`);
  }, () => undefined);
  const encode = (text) => Buffer.from(text).toString('base64');
  const live = writeDump('drift-secret-dump', secret, (_, objects) => {
    const { labels } = objects[0].metadata;
    const token = manage({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'token', namespace: 'shop', labels }, type: 'Opaque', data: { password: encode('hunter2') } });
    write(token, '/data/password', encode('hunter3'), 'kubectl-edit', '2026-11-22T09:00:00Z');
    return [...objects.filter((object) => object.kind !== 'Secret'), token];
  });
  const { page, complaints, close } = await open(writeDriftPage('drift-secret', secret, live) + '#Secret/shop/token');
  const pane = await page.locator('#pane').textContent();
  assert.match(pane, /kubectl-edit, 2026-11-22T09:00:00Z/);
  const all = (await page.content()) + JSON.stringify(await readData(page));
  for (const value of ['hunter', encode('hunter2'), encode('hunter3')]) assert.ok(!all.includes(value), `${value} is in the page`);
  assert.deepEqual(complaints, []);
  await close();
});

await test('drift, served: the page says what drift says, and follows the clusters', async () => {
  const own = writeDump('drift-served-dump', repo, (cluster, objects) => editCluster(Number(cluster.slice(-1)), objects, 'debug'));
  const { url, server, ask, end } = await serve(repo, ['--drift', '--observed', own]);
  const { page, complaints, close } = await open(url, { server });
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Drift' }).click();
  await until(page, () => document.documentElement.dataset.state === 'usable' && document.querySelector('.bar strong')?.textContent === 'federate drift');
  const read = () => JSON.parse(run(federate, ['drift', '.', '--observed', own, '-o', 'json', '--quiet'], repo, [0, 1])).actions.map(({ result, ...action }) => action);
  assert.deepEqual((await (await ask('/api/drift')).json()).actions.map(({ result, ...action }) => action), read());
  const title = () => page.locator('#sentence').textContent();
  const before = await title();
  await openFirst(page);
  const opened = await page.locator('#pane-title').textContent();
  assert.deepEqual(await findViolations(page), []);
  // A cluster changes: the dump is written again.
  writeDump('drift-served-dump', repo, (cluster, objects) => editCluster(Number(cluster.slice(-1)), objects, 'info'));
  await until(page, (text) => document.getElementById('sentence').textContent !== text, before);
  assert.match(await title(), new RegExp(`^${read().length} objects? drifted`));
  assert.equal(await page.locator('#pane-title').textContent(), opened);
  assert.deepEqual(complaints, []);
  await end();
  await close();
});

await test('drift, served: without --drift there is none', async () => {
  const { url, server, ask, end } = await serve(repo);
  const answer = await ask('/drift');
  assert.equal(answer.status, 404);
  assert.match(await answer.text(), /with --drift/);
  const { page, close } = await open(url.replace('/#', '/drift#'), { server });
  assert.match(await page.locator('#sentence').textContent(), /with --drift/);
  await end();
  await close();
});
