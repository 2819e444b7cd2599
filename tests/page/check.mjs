// The page of `check`: findings by file with their lines, causes first.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';

import { HOSTILE, checkEverywhere, checkHostile, createRepo, federate, findViolations, open, readData, replaceInFile, run, serve, test, until, writeFleet, writePage } from './harness.mjs';

/** A repo with mistakes: a value that is not what it should be, a policy that matches nothing, templates without a policy. */
function writeMistakes(folder, name = 'web') {
  writeFleet(folder, 3, 4);
  fs.writeFileSync(path.join(folder, 'broken.yaml'), `apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: other, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: nobody}]
  placement: {clusterAffinity: {clusterNames: [member-001, member-999]}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: wrong, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: v1, kind: Service}]
  placement: {clusterAffinity: 7}
`);
  fs.writeFileSync(path.join(folder, 'orphans.yaml'), `apiVersion: v1
kind: Secret
metadata: {name: token, namespace: other}
stringData: {password: hunter2}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: ${JSON.stringify(name)}, namespace: other}
`);
}

const writeCheckPage = (name, repo) => writePage(name, ['check', '.', '-o', 'html'], repo, [0, 1, 2]);

const repo = createRepo('check', (folder) => writeMistakes(folder), () => undefined);
const many = createRepo('check-many', (folder) => {
  writeMistakes(folder);
  for (let file = 0; file < 60; file += 1) {
    const objects = Array.from({ length: 30 }, (_, at) => `apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: sa-${file}-${at}, namespace: other}\n`);
    fs.writeFileSync(path.join(folder, `accounts-${file}.yaml`), objects.join('---\n'));
  }
}, () => undefined);
const hostile = createRepo('check-hostile', (folder) => writeMistakes(folder, HOSTILE), () => undefined);
const clean = createRepo('check-clean', (folder) => writeFleet(folder, 3, 2), () => undefined);

const pages = { check: writeCheckPage('check', repo), many: writeCheckPage('check-many', many), hostile: writeCheckPage('check-hostile', hostile), clean: writeCheckPage('check-clean', clean) };

await checkEverywhere('check', pages.check, [['start', async () => {}], ['finding', (page) => page.locator('.finding .place').first().click()], ['no match', async (page) => {
  await page.locator('#filter').fill('nothing-is-called-so');
}]]);

await test('check: the page says what check -o json says, causes first, each with its line', async () => {
  const { page, complaints, close } = await open(pages.check);
  const report = JSON.parse(run(federate, ['check', '.', '-o', 'json'], repo, [2]));
  const data = await readData(page);
  assert.deepEqual(data.findings.map(({ quote, link, ...row }) => row), report.findings);
  const errors = report.findings.filter((row) => row.severity === 'error').length;
  assert.equal(Number(await page.locator('.tile[data-flag=error] .number').textContent()), errors);
  assert.equal(Number(await page.locator('.tile[data-flag=warning] .number').textContent()), report.findings.length - errors);
  assert.equal(await page.locator('.finding').count(), report.findings.length);
  // The file with the error stands first, and the line is shown and marked.
  assert.equal(await page.locator('.file h3 code').first().textContent(), 'broken.yaml');
  assert.match(await page.locator('.finding.error .quote').first().textContent(), /^ +13 │ .*clusterAffinity: 7/);
  assert.match(await page.locator('.finding.error mark').first().textContent(), /7/);
  const [fix, follows] = [await page.locator('#causes').locator('..').textContent(), await page.locator('#following').locator('..').textContent()];
  assert.match(fix, /broken\.yaml:13/);
  assert.ok(!fix.includes('unmatched') && follows.includes('unmatched'), `${fix} / ${follows}`);
  assert.deepEqual(complaints, []);
  await close();
});

await test('check: a line with a credential is not shown', async () => {
  const { page, close } = await open(pages.check);
  assert.ok(!(await page.content()).includes('hunter2') && !JSON.stringify(await readData(page)).includes('hunter2'));
  await close();
});

await test('check: a link leads to its finding, and the keyboard to the next one', async () => {
  const { findings } = JSON.parse(run(federate, ['check', '.', '-o', 'json'], repo, [2]));
  const last = findings.at(-1);
  const { page, complaints, close } = await open(`${pages.check}#${last.code}/${last.file}:${last.line}`);
  const focused = () => page.evaluate(() => document.activeElement.className + ' ' + document.activeElement.textContent);
  assert.match(await focused(), new RegExp(`^finding ${last.severity}.*line ${last.line} ${last.code}`));
  await page.keyboard.press('k');
  assert.ok(!(await focused()).includes(`line ${last.line} ${last.code}`) || findings.length === 1);
  assert.notEqual(await page.evaluate(() => location.hash), '');
  await page.locator('[aria-labelledby=causes] a').first().click();
  assert.match(await focused(), /^finding error/);
  assert.deepEqual(complaints, []);
  await close();
});

await test('check: the filter finds words of messages, and many findings are folded', async () => {
  const { page, close } = await open(pages.many);
  assert.equal(await page.locator('.file').count(), 50);
  assert.ok((await page.locator('.finding').count()) <= 50 * 20);
  await page.keyboard.press('/');
  await page.keyboard.type('sa-59-29');
  assert.match(await page.locator('.status').textContent(), /^1 of \d+ findings$/);
  assert.equal(await page.locator('.finding').count(), 1);
  await page.keyboard.press('Escape');
  await page.locator('.tile[data-flag=error]').click();
  assert.equal(await page.locator('.finding.warning').count(), 0);
  await close();
});

await test('check: text of a repo is text', async () => {
  const { page, complaints, close } = await open(pages.hostile);
  await checkHostile(page, complaints);
  await close();
});

await test('check: a repo without findings is clean, prints, and can be read without scripts', async () => {
  const { page, complaints, close } = await open(pages.clean);
  assert.match(await page.locator('#sentence').textContent(), /^Clean: 4 templates and 3 clusters\.$/);
  assert.match(await page.locator('#findings').textContent(), /Nothing is wrong\./);
  assert.deepEqual(complaints, []);
  await close();
  const printed = await open(pages.check);
  const pdf = await printed.page.pdf({ format: 'A4' });
  assert.ok((pdf.toString('latin1').match(/\/Type\s*\/Page\b/g) || []).length <= 6);
  await printed.close();
  const plain = await open(pages.check, { javaScriptEnabled: false });
  assert.match(await plain.page.locator('#verdict').textContent(), /broken\.yaml:13/);
  await plain.close();
});

await test('check, served: findings follow the files, and what was chosen stays chosen', async () => {
  const served = createRepo('check-served', (folder) => writeMistakes(folder), () => undefined);
  const { url, server, end } = await serve(served);
  const { page, complaints, close } = await open(url, { server });
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Check' }).click();
  await until(page, () => document.documentElement.dataset.state === 'usable' && document.querySelector('.bar strong')?.textContent === 'federate check');
  assert.equal(await page.locator('nav.pages [aria-current]').textContent(), 'Check');
  assert.equal(await page.getByRole('link', { name: 'Drift', exact: true }).count(), 0, 'no clusters were given');
  const compare = async () => {
    const report = JSON.parse(run(federate, ['check', '.', '-o', 'json'], served, [0, 1, 2]));
    const titles = await page.locator('article.finding').count();
    assert.equal(titles, report.findings.length);
    return report.findings;
  };
  const before = await compare();
  assert.ok(before.some((finding) => finding.severity === 'error'));
  await page.locator('#filter').fill('orphans');
  await page.locator('.finding .place').first().click();
  const chosen = await page.evaluate(() => location.hash);
  assert.deepEqual(await findViolations(page), []);
  // The error is repaired, and the filter stays.
  replaceInFile(served, 'broken.yaml', 'clusterAffinity: 7', 'clusterAffinity: {clusterNames: [member-001]}');
  await until(page, () => document.querySelector('#tiles .number').textContent === '0');
  assert.equal(await page.locator('#filter').inputValue(), 'orphans');
  assert.equal(await page.evaluate(() => location.hash), chosen);
  await page.keyboard.press('Escape');
  await page.locator('#filter').fill('');
  await until(page, (count) => document.querySelectorAll('article.finding').length !== count, before.length);
  assert.equal((await compare()).filter((finding) => finding.severity === 'error').length, 0);
  await page.getByRole('link', { name: 'Plan', exact: true }).click();
  await until(page, () => document.documentElement.dataset.state === 'usable' && document.querySelector('.bar strong')?.textContent === 'federate plan');
  assert.deepEqual(complaints, []);
  await end();
  await close();
});
