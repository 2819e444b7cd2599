// The page of `migrate`: the verdict, objects with what differs and why, random states, and the runbook.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';

import { HOSTILE, checkEverywhere, createRepo, federate, open, readData, run, test, writeFleet, writePage } from './harness.mjs';

const MIGRATE = ['migrate', '.', '--to', 'kubeadmiral', '--prove', '20'];

const writeMigrationPage = (name, repo) => writePage(name, [...MIGRATE, '-o', 'html'], repo, [0, 1]);

const repo = createRepo('migrate', (folder) => writeFleet(folder, 5, 4), () => undefined);
const many = createRepo('migrate-many', (folder) => writeFleet(folder, 3, 120), () => undefined);
/** Names that a repo can have, with text that is hostile: files, annotations, and labels that policies select by. */
const hostile = createRepo('migrate-hostile', (folder) => {
  writeFleet(folder, 3, 2, HOSTILE);
  fs.renameSync(path.join(folder, 'policy.yaml'), path.join(folder, '<img src=x onerror=alert(1)>.yaml'));
}, () => undefined);

const pages = { migrate: writeMigrationPage('migrate', repo), many: writeMigrationPage('migrate-many', many), hostile: writeMigrationPage('migrate-hostile', hostile) };

await checkEverywhere('migrate', pages.migrate, [['start', async () => {}], ['pane', (page) => page.locator('button.object').first().click()], ['runbook', async (page) => {
  await page.keyboard.press('Escape');
  await page.locator('#runbook summary').first().click();
}], ['no match', async (page) => {
  await page.locator('#filter').fill('nothing-is-called-so');
}]]);

await test('migrate: the page says what migrate -o json says, verdict first', async () => {
  const { page, complaints, close } = await open(pages.migrate);
  const report = JSON.parse(run(federate, [...MIGRATE, '-o', 'json'], repo, [0, 1]));
  const data = await readData(page);
  assert.deepEqual(data.report, report);
  assert.equal(await page.locator('#sentence').textContent(), report.summary);
  for (const [flag, count] of [['unexplained', report.counts.unexplained], ['different', report.counts.different], ['equal-now', report.counts.equalNow]]) {
    assert.equal(Number(await page.locator(`.tile[data-flag=${flag}] .number`).textContent()), count, flag);
  }
  assert.equal(await page.locator('button.object').count(), report.objects.length);
  const states = await page.locator('#states').textContent();
  for (const one of report.stress.reasons) {
    assert.ok(states.includes(one.reason) && states.includes(one.example.events[0] ?? 'as it is now'), `${one.reason}: ${states}`);
  }
  for (const file of report.files) assert.ok((await page.locator('#files').textContent()).includes(file.path), file.path);
  assert.deepEqual(complaints, []);
  await close();
});

await test('migrate: an object shows its differences and rules, and the keyboard leads to the next one', async () => {
  const report = JSON.parse(run(federate, [...MIGRATE, '-o', 'json'], repo, [0, 1]));
  const row = report.objects[0];
  const { page, complaints, close } = await open(`${pages.migrate}#${row.object.kind}/${row.object.namespace}/${row.object.name}`);
  const pane = await page.locator('#pane').textContent();
  for (const rule of row.rules) assert.ok(pane.includes(rule.reason) && pane.includes(rule.detail), `${rule.reason}: ${pane}`);
  for (const difference of row.differences) assert.ok(pane.includes(difference.detail), pane);
  const before = await page.locator('#pane-title').textContent();
  await page.keyboard.press('j');
  assert.notEqual(await page.locator('#pane-title').textContent(), before);
  await page.keyboard.press('Escape');
  assert.match(await page.evaluate(() => document.activeElement.className), /object/);
  assert.deepEqual(complaints, []);
  await close();
});

await test('migrate: the runbook has its steps in order, as text', async () => {
  const { page, close } = await open(pages.migrate);
  const titles = await page.locator('#runbook summary').allTextContents();
  assert.deepEqual(titles.map((title) => title.split('`')[1]).filter(Boolean), ['record', 'register', 'load', 'stop', 'take-over', 'clean']);
  assert.ok(titles.includes('The way back'));
  assert.equal(titles[0], 'Before you begin');
  assert.match(await page.locator('#runbook pre').first().textContent(), /NEW=/);
  assert.match(await page.locator('#runbook pre').nth(1).textContent(), /federate snapshot/);
  await close();
});

await test('migrate: tiles and words filter, and many objects are folded', async () => {
  const { page, close } = await open(pages.many);
  const all = JSON.parse(run(federate, [...MIGRATE, '-o', 'json'], many, [0, 1])).objects.length;
  assert.equal(await page.locator('button.object').count(), Math.min(all, 100));
  await page.getByRole('button', { name: `Show all ${all}` }).click();
  assert.equal(await page.locator('button.object').count(), all);
  await page.keyboard.press('/');
  await page.keyboard.type('app-119');
  assert.match(await page.locator('.status').textContent(), new RegExp(`^1 of ${all} objects$`));
  await page.keyboard.press('Escape');
  await page.locator('.tile[data-flag=unexplained]').click();
  assert.equal(await page.locator('button.object').count(), 0);
  await close();
});

await test('migrate: text of a repo is text', async () => {
  const { page, complaints, close } = await open(pages.hostile);
  const text = await page.locator('body').textContent();
  assert.ok(text.includes('<img src=x onerror=alert(1)>'), text.slice(0, 4000));
  assert.equal(await page.locator('img').count(), 0);
  assert.deepEqual(complaints, []);
  await close();
});

await test('migrate: it prints, and can be read without scripts', async () => {
  const printed = await open(pages.migrate);
  const pdf = await printed.page.pdf({ format: 'A4' });
  assert.ok((pdf.toString('latin1').match(/\/Type\s*\/Page\b/g) || []).length <= 8);
  await printed.close();
  const plain = await open(pages.migrate, { javaScriptEnabled: false });
  assert.match(await plain.page.locator('#verdict').textContent(), /What differs/);
  await plain.close();
});
