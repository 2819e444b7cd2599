// The pages of `-o html` in a real browser: what they show, how they are used by keyboard, what they allow.
//
// Run by `.ci/run page`, or by hand: FEDERATE_BIN=target/debug/federate NODE_MODULES=... node tests/page/page.mjs
// It needs Chromium (CHROMIUM, or `chromium` on the path), and the packages playwright-core and axe-core in NODE_MODULES.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const require = createRequire(path.resolve(process.env.NODE_MODULES || path.join(root, 'target/ci/node/node_modules'), 'x.js'));
const { chromium } = require('playwright-core');
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const federate = path.resolve(process.env.FEDERATE_BIN || path.join(root, 'target/debug/federate'));
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'federate-page-'));
const keep = process.env.KEEP_PAGES;

const WIDTHS = [1440, 900, 390];
const results = { passed: 0, failed: 0 };

/** Runs a command, and returns what it prints; exit codes 0 and 1 are results. */
function run(program, args, cwd) {
  const done = spawnSync(program, args, { cwd, encoding: 'utf8', maxBuffer: 1 << 28, env: { ...process.env, FEDERATE_DIGEST_KEY: '0123456789abcdef0123456789abcdef' } });
  assert.ok(done.status === 0 || done.status === 1, `${program} ${args.join(' ')}: ${done.status}\n${done.stderr}`);
  return done.stdout;
}

/** A repository whose work tree differs from its commit. */
function createRepo(name, write, edit) {
  const folder = path.join(scratch, name);
  fs.mkdirSync(folder);
  write(folder);
  const git = (...args) => execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], { cwd: folder, stdio: 'pipe' });
  git('init', '-q', '-b', 'main');
  git('add', '-A');
  git('commit', '-q', '-m', 'base');
  edit(folder);
  return folder;
}

/** A Karmada repo with `clusters` clusters in regions of 10, and `objects` Deployments with a ConfigMap each. */
function writeFleet(folder, clusters, objects, hostile = '') {
  const names = Array.from({ length: clusters }, (_, at) => `member-${String(at + 1).padStart(3, '0')}`);
  const inventory = names.map((name, at) => `apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: ${name}, labels: {tier: ${at % 3 === 0 ? 'gold' : 'plain'}}}
spec: {syncMode: Push, region: region-${String.fromCharCode(97 + Math.floor(at / 10))}, provider: acme}
status:
  kubernetesVersion: v1.33.0
  apiEnablements: [{groupVersion: apps/v1, resources: [{kind: Deployment}]}, {groupVersion: v1, resources: [{kind: ConfigMap}]}]
  conditions: [{type: Ready, status: "True"}]
  resourceSummary: {allocatable: {cpu: "64", memory: 256Gi, pods: "500"}, allocated: {cpu: "8", memory: 32Gi, pods: "50"}}
`);
  fs.writeFileSync(path.join(folder, 'clusters.yaml'), inventory.join('---\n'));
  fs.writeFileSync(path.join(folder, 'policy.yaml'), `apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  placement:
    clusterAffinity: {labelSelector: {matchLabels: {tier: gold}}}
    replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: settings, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]
  placement: {clusterAffinity: {clusterNames: [${names.slice(0, 3).join(', ')}]}}
`);
  const templates = Array.from({ length: objects }, (_, at) => `apiVersion: apps/v1
kind: Deployment
metadata: {name: app-${at}, namespace: shop}
spec:
  replicas: ${6 + (at % 7)}
  selector: {matchLabels: {app: app-${at}}}
  template:
    metadata: {labels: {app: app-${at}}}
    spec: {containers: [{name: web, image: "registry.example/app-${at}:1.0", resources: {requests: {cpu: 100m}}}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings-${at}, namespace: shop, annotations: {note: ${JSON.stringify(hostile)}}}
data: {level: info}
`);
  fs.writeFileSync(path.join(folder, 'templates.yaml'), templates.join('---\n'));
}

function replaceInFile(folder, name, from, to) {
  const file = path.join(folder, name);
  fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replaceAll(from, to));
}

/** Writes the page of a command; returns its address. */
function writePage(name, args, cwd) {
  const file = path.join(keep || scratch, name + '.html');
  const html = run(federate, args, cwd);
  fs.writeFileSync(file, html);
  assert.equal(run(federate, args, cwd), html, 'two runs differ');
  return pathToFileURL(file).href;
}

const HOSTILE = '</script><img src=x onerror=alert(1)><b>\u202eabc\u001b[31m';

const repos = {
  small: createRepo('small', (folder) => fs.cpSync(path.join(root, 'examples/repo'), folder, { recursive: true }), (folder) => {
    for (const file of fs.readdirSync(folder, { recursive: true })) {
      if (!/\.ya?ml$/.test(file)) continue;
      replaceInFile(folder, file, /replicas: (\d+)/g, (_, number) => `replicas: ${Number(number) + 5}`);
    }
  }),
  large: createRepo('large', (folder) => writeFleet(folder, 40, 60), (folder) => {
    replaceInFile(folder, 'templates.yaml', ':1.0"', ':1.1"');
    replaceInFile(folder, 'templates.yaml', 'app-7:1.1"', 'evil:9"');
    replaceInFile(folder, 'policy.yaml', '{matchLabels: {tier: gold}}', '{matchLabels: {tier: plain}}');
    replaceInFile(folder, 'policy.yaml', 'member-003', 'member-009');
  }),
  hostile: createRepo('hostile', (folder) => writeFleet(folder, 3, 2, 'plain'), (folder) => writeFleet(folder, 3, 2, HOSTILE)),
};

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || findProgram('chromium'), args: ['--no-sandbox'] });

function findProgram(name) {
  for (const folder of (process.env.PATH || '').split(':')) {
    if (fs.existsSync(path.join(folder, name))) return path.join(folder, name);
  }
  throw new Error(`${name} is not installed: set CHROMIUM`);
}

/** Opens a page, and fails on anything that the browser complains of, and on any request. */
async function open(url, { width = 1440, theme = 'light', javaScriptEnabled = true } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: theme, javaScriptEnabled });
  const page = await context.newPage();
  const complaints = [];
  page.on('console', (message) => complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('request', (request) => {
    if (request.url().split('#')[0] !== url.split('#')[0]) complaints.push('request of ' + request.url());
  });
  await page.goto(url);
  if (javaScriptEnabled) {
    for (let tries = 0; tries < 200; tries += 1) {
      if (await page.evaluate(() => document.documentElement.dataset.state === 'usable')) break;
      await new Promise((done) => setTimeout(done, 50));
    }
    await new Promise((done) => setTimeout(done, 150));
  }
  return { page, complaints, close: () => context.close() };
}

async function findViolations(page) {
  // Evaluated by the driver, which a policy of the page does not concern.
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }));
  return found.violations.map((one) => `${one.id}: ${one.nodes.length} × ${one.nodes[0].html.slice(0, 160)} ${one.nodes[0].failureSummary}`);
}

async function test(name, body) {
  try {
    await body();
    results.passed += 1;
    console.log(`ok   ${name}`);
  } catch (error) {
    results.failed += 1;
    console.log(`FAIL ${name}\n     ${String(error.stack || error).split('\n').join('\n     ')}`);
  }
}

const pages = {
  plan: writePage('plan', ['plan', '.', '-o', 'html'], repos.large),
  small: writePage('diff-small', ['diff', 'HEAD', '.', '-o', 'html'], repos.small),
  large: writePage('diff-large', ['diff', 'HEAD', '.', '-o', 'html'], repos.large),
  hostile: writePage('diff-hostile', ['diff', 'HEAD', '.', '-o', 'html'], repos.hostile),
};

for (const [name, url] of Object.entries(pages)) {
  for (const width of WIDTHS) {
    for (const theme of ['light', 'dark']) {
      // What differs between pages is less than what differs between sizes and themes.
      if (['plan', 'hostile'].includes(name) && (width === 900 || (width === 390) === (theme === 'light'))) continue;
      await test(`${name} at ${width}, ${theme}: nothing to complain of, accessible, no sideways scroll`, async () => {
        const { page, complaints, close } = await open(url, { width, theme });
        const states = [['start', async () => {}], ['pane', () => page.locator('.row.item .cell.first').first().click()], ['no match', async () => {
          await page.keyboard.press('Escape');
          await page.locator('#filter').fill('nothing-is-called-so');
        }]];
        for (const [state, reach] of states) {
          await reach();
          if (keep) await page.screenshot({ path: path.join(keep, `${name}-${width}-${theme}-${state.replace(' ', '-')}.png`) });
          assert.deepEqual(await findViolations(page), [], state);
          const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
          assert.equal(wide, 0, `${state} scrolls sideways by ${wide}`);
        }
        assert.deepEqual(complaints, []);
        await close();
      });
    }
  }
}

await test('the tiles are the numbers of diff -o json', async () => {
  for (const [url, repo] of [[pages.small, repos.small], [pages.large, repos.large]]) {
    const { counts, sentence } = JSON.parse(run(federate, ['diff', 'HEAD', '.', '-o', 'json'], repo)).verdict;
    const { page, close } = await open(url);
    assert.equal(await page.locator('#sentence').textContent(), sentence);
    const names = { runsNowhere: 'runsNowhere', doesNotFit: 'doesNotFit', moves: 'moves', restarts: 'restarts', scaled: 'scaled', added: 'added', fields: 'fields' };
    for (const [flag, count] of Object.entries(names)) {
      const text = await page.locator(`.tile[data-flag=${flag}] .number`).textContent();
      assert.equal(Number(text), counts[count], flag);
    }
    await close();
  }
});

await test('rows add up, and a tile filters them', async () => {
  const { page, close } = await open(pages.large);
  await page.locator('#filter').fill('kind:deployment');
  const total = await page.locator('.row.item').first().locator('.total').textContent();
  const sums = await page.locator('.row.item').first().locator('.sum').allTextContents();
  const [before, after] = [0, 1].map((side) => sums.filter(Boolean).map((sum) => Number(sum.split(' → ')[side] ?? sum)).reduce((a, b) => a + b, 0));
  const [first, second = first] = total.replace(' cl.', '').split(' → ').map(Number);
  assert.deepEqual([before, after].map(String), [first, second].map(String), `${total} is not the sum of ${sums}`);
  await page.locator('#filter').fill('');
  await page.locator('.tile[data-flag=moves]').click();
  const status = await page.locator('.status').textContent();
  assert.match(status, /^\d+ of \d+ objects$/);
  assert.equal(Number(status.split(' ')[0]), Number(await page.locator('.tile[data-flag=moves] .number').textContent()));
  await close();
});

await test('the filter finds values, and an odd value stands out', async () => {
  const { page, close } = await open(pages.large);
  assert.match(await page.locator('#values').textContent(), /differs from \d+ others/);
  await page.keyboard.press('/');
  await page.keyboard.type('evil');
  await new Promise((done) => setTimeout(done, 300));
  assert.equal(await page.locator('.status').textContent(), '1 of 120 objects');
  assert.match(await page.locator('.row.item .cell.first').first().getAttribute('title'), /app-7$/);
  await close();
});

await test('by keyboard: filter, grid, object, next, back', async () => {
  const { page, complaints, close } = await open(pages.small);
  const focus = () => page.evaluate(() => document.activeElement.closest('[data-column]')?.textContent ?? document.activeElement.id);
  await page.keyboard.press('/');
  assert.equal(await focus(), 'filter');
  for (let stop = 0; stop < 30 && !(await page.evaluate(() => document.activeElement.closest('.matrix-rows') !== null)); stop += 1) await page.keyboard.press('Tab');
  assert.ok(await page.evaluate(() => document.activeElement.closest('.matrix-rows') !== null), 'the grid is not reached');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Home');
  const row = await focus();
  await page.keyboard.press('Enter');
  assert.equal(await focus(), 'pane-title');
  const opened = await page.evaluate(() => location.hash);
  assert.ok(opened.length > 3);
  await page.keyboard.press('Escape');
  assert.equal(await focus(), row);
  await page.keyboard.press('Control+End');
  assert.notEqual(await focus(), row);
  assert.deepEqual(complaints, []);
  await close();
});

await test('a link opens its object; one to an unknown object says so', async () => {
  const { page, close } = await open(pages.large + '#deployment/shop/app-7');
  assert.match(await page.locator('#pane-title').textContent(), /Deployment shop\/app-7/);
  assert.match(await page.locator('#pane').textContent(), /registry\.example\/evil:9/);
  await close();
  const other = await open(pages.large + '#Deployment/shop/no-such');
  assert.equal(await other.page.locator('.status').textContent(), 'Deployment/shop/no-such is not in this report');
  await other.close();
});

await test('text of a repo is text', async () => {
  const { page, complaints, close } = await open(pages.hostile + '#ConfigMap/shop/settings-0');
  const text = await page.locator('#pane').textContent();
  assert.ok(text.includes('</script><img src=x onerror=alert(1)>'), text);
  assert.ok(!/[\u202e\u001b]/.test(await page.locator('body').textContent()), 'control characters are shown as they are');
  assert.equal(await page.locator('img').count(), 0);
  assert.deepEqual(complaints, []);
  await close();
});

await test('the policy refuses scripts, images and styles from elsewhere', async () => {
  const { page, complaints, close } = await open(pages.small);
  await page.evaluate(() => {
    const script = document.createElement('script');
    try { script.text = 'window.ran = true'; } catch { /* refused */ }
    document.body.append(script);
    const image = document.createElement('img');
    image.src = 'https://example.com/x.png';
    document.body.append(image);
    document.body.setAttribute('style', 'color: red');
  });
  await new Promise((done) => setTimeout(done, 200));
  assert.equal(await page.evaluate(() => window.ran), undefined);
  assert.ok(complaints.some((text) => /img-src/.test(text)), 'the image was not refused');
  assert.ok(complaints.some((text) => /style-src/.test(text)), 'the style was not refused');
  await close();
});

await test('without scripts, the verdict can be read', async () => {
  const { page, close } = await open(pages.small, { javaScriptEnabled: false });
  assert.ok((await page.locator('#sentence').textContent()).length > 10);
  assert.equal(await page.locator('#matrix').isVisible(), false);
  await close();
});

await test('prints on few pages', async () => {
  const { page, close } = await open(pages.small);
  const pdf = await page.pdf({ format: 'A4', landscape: true });
  const count = (pdf.toString('latin1').match(/\/Type\s*\/Page\b/g) || []).length;
  assert.ok(count >= 1 && count <= 6, `${count} pages`);
  await close();
});

await test('what is shown is found again in the data', async () => {
  const { page, close } = await open(pages.large);
  const data = await page.evaluate(async () => {
    const text = atob(document.getElementById('data').textContent.trim());
    const bytes = Uint8Array.from(text, (sign) => sign.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'))).json();
  });
  assert.equal(data.kind, 'Page');
  const report = JSON.parse(run(federate, ['diff', 'HEAD', '.', '-o', 'json'], repos.large));
  assert.deepEqual(data.verdict, report.verdict);
  assert.deepEqual(data.changes, report.objects);
  assert.deepEqual(data.causes, report.causes);
  await close();
});

await browser.close();
fs.rmSync(scratch, { recursive: true, force: true });
console.log(`${results.passed} passed, ${results.failed} failed`);
process.exit(results.failed > 0 ? 1 : 0);
