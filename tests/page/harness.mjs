// What the tests of pages share: repos to show, a browser, and what must hold of every page.

import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const require = createRequire(path.resolve(process.env.NODE_MODULES || path.join(root, 'target/ci/node/node_modules'), 'x.js'));
const { chromium } = require('playwright-core');
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
export const federate = path.resolve(process.env.FEDERATE_BIN || path.join(root, 'target/debug/federate'));
export const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'federate-page-'));
export const keep = process.env.KEEP_PAGES;

export const WIDTHS = [1440, 900, 390];
export const results = { passed: 0, failed: 0 };

/** Runs a command, and returns what it prints; exit codes 0 and 1 are results, unless others are named. */
export function run(program, args, cwd, codes = [0, 1]) {
  const done = spawnSync(program, args, { cwd, encoding: 'utf8', maxBuffer: 1 << 28, env: { ...process.env, FEDERATE_DIGEST_KEY: '0123456789abcdef0123456789abcdef' } });
  assert.ok(codes.includes(done.status), `${program} ${args.join(' ')}: ${done.status}\n${done.stderr}`);
  return done.stdout;
}

/** A repository whose work tree differs from its commit. */
export function createRepo(name, write, edit) {
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
export function writeFleet(folder, clusters, objects, hostile = '') {
  const names = Array.from({ length: clusters }, (_, at) => `member-${String(at + 1).padStart(3, '0')}`);
  const inventory = names.map((name, at) => `apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: ${name}, labels: {tier: ${at % 3 === 0 ? 'gold' : 'plain'}}}
spec: {syncMode: Push, region: region-${String.fromCharCode(97 + Math.floor(at / 10))}, provider: acme}
status:
  kubernetesVersion: v1.33.0
  apiEnablements: [{groupVersion: apps/v1, resources: [{kind: Deployment}]}, {groupVersion: v1, resources: [{kind: ConfigMap}, {kind: Secret}]}]
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

export function replaceInFile(folder, name, from, to) {
  const file = path.join(folder, name);
  fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replaceAll(from, to));
}

/** Writes the page of a command; returns its address. */
export function writePage(name, args, cwd, codes) {
  const file = path.join(keep || scratch, name + '.html');
  const html = run(federate, args, cwd, codes);
  fs.writeFileSync(file, html);
  assert.equal(run(federate, args, cwd, codes), html, 'two runs differ');
  return pathToFileURL(file).href;
}

export const HOSTILE = '</script><img src=x onerror=alert(1)><b>\u202eabc\u001b[31m';

export const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || findProgram('chromium'), args: ['--no-sandbox'] });

function findProgram(name) {
  for (const folder of (process.env.PATH || '').split(':')) {
    if (fs.existsSync(path.join(folder, name))) return path.join(folder, name);
  }
  throw new Error(`${name} is not installed: set CHROMIUM`);
}

/** Opens a page, and fails on anything that the browser complains of, and on any request. */
export async function open(url, { width = 1440, theme = 'light', javaScriptEnabled = true, server = '' } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: theme, javaScriptEnabled });
  const page = await context.newPage();
  const complaints = [];
  page.on('console', (message) => complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('request', (request) => {
    if (request.url().split('#')[0] !== url.split('#')[0] && !(server && request.url().startsWith(server))) complaints.push('request of ' + request.url());
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

export async function findViolations(page) {
  // Evaluated by the driver, which a policy of the page does not concern.
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }));
  return found.violations.map((one) => `${one.id}: ${one.nodes.length} × ${one.nodes[0].html.slice(0, 160)} ${one.nodes[0].failureSummary}`);
}

/** Runs a test, unless ONLY is a part of other names. */
export async function test(name, body) {
  if (!name.includes(process.env.ONLY || '')) return;
  const before = new Set(servers);
  try {
    await body();
    results.passed += 1;
    console.log(`ok   ${name}`);
  } catch (error) {
    results.failed += 1;
    // A server that a failed test leaves behind would keep this program from ending.
    for (const child of servers) if (!before.has(child)) child.kill('SIGKILL');
    console.log(`FAIL ${name}\n     ${String(error.stack || error).split('\n').join('\n     ')}`);
  }
}

/** The servers that run. */
const servers = new Set();

/** Serves a repo until the test is over. */
export async function serve(repo, args = []) {
  const child = spawn(federate, ['serve', '.', '--quiet', ...args], { cwd: repo, stdio: ['ignore', 'pipe', 'inherit'] });
  const url = await new Promise((resolve, reject) => {
    let text = '';
    child.stdout.on('data', (part) => {
      text += part;
      if (text.includes('\n')) resolve(text.trim());
    });
    child.on('exit', (code) => reject(new Error(`federate serve ended with ${code}`)));
  });
  servers.add(child);
  const ended = new Promise((resolve) => child.on('exit', resolve));
  child.on('exit', () => servers.delete(child));
  /** What the API answers to who has the token. */
  const ask = (path) => fetch(new URL(path, url), { headers: { Authorization: 'Bearer ' + url.split('#token=')[1] } });
  return { url, server: new URL(url).origin + '/', ask, end: () => (child.kill('SIGTERM'), ended) };
}

/** Waits until a condition holds in the page. */
export async function until(page, holds, argument) {
  for (let tries = 0; tries < 400; tries += 1) {
    if (await page.evaluate(holds, argument)) return;
    await new Promise((done) => setTimeout(done, 25));
  }
  throw new Error(`does not become true: ${holds} ${argument ?? ''}; status: ${await page.evaluate(() => document.querySelector('.live-status')?.textContent)}`);
}


/** Opens an object's pane by its row. */
export const openFirst = (page) => page.locator('.row.item .cell.first').first().click();

/**
 * What must hold of a page at each width, in both themes and in each of its states: nothing to complain of, accessible, no
 * sideways scroll. A state is a name and what reaches it.
 */
export async function checkEverywhere(name, url, states, { server = '' } = {}) {
  for (const width of WIDTHS) {
    for (const theme of ['light', 'dark']) {
      await test(`${name} at ${width}, ${theme}: nothing to complain of, accessible, no sideways scroll`, async () => {
        const { page, complaints, close } = await open(url, { width, theme, server });
        for (const [state, reach] of states) {
          await reach(page);
          await new Promise((done) => setTimeout(done, 150));
          if (keep) await page.screenshot({ path: path.join(keep, `${name}-${width}-${theme}-${state.replaceAll(' ', '-')}.png`), fullPage: state === 'start' });
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

/** The data of a page. */
export function readData(page) {
  return page.evaluate(async () => {
    const text = atob(document.getElementById('data').textContent.trim());
    const bytes = Uint8Array.from(text, (sign) => sign.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'))).json();
  });
}

/** What must hold of a page in which every text of a repo or a cluster is hostile. */
export async function checkHostile(page, complaints) {
  const text = await page.locator('body').textContent();
  assert.ok(text.includes('</script><img src=x onerror=alert(1)>'), text.slice(0, 4000));
  assert.ok(!/[\u202e\u001b]/.test(text), 'control characters are shown as they are');
  assert.equal(await page.locator('img').count(), 0);
  assert.deepEqual(complaints, []);
}
