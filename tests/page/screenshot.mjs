// Makes the pictures of the README and the book, in docs/images: a change of examples/repo (page.png), the loss of one of its clusters
// (what-if.png), drift (drift.png), and mistakes (check.png).
//
// FEDERATE_BIN=target/debug/federate NODE_MODULES=... node tests/page/screenshot.mjs

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

import { browser, federate, root, run, scratch } from './harness.mjs';
import { find, write, writeDump } from './dump.mjs';

const repo = path.join(scratch, 'repo');
fs.cpSync(path.join(root, 'examples/repo'), repo, { recursive: true });
const git = (...args) => execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], { cwd: repo, stdio: 'pipe' });
git('init', '-q', '-b', 'main');
git('add', '-A');
git('commit', '-q', '-m', 'base');
edit('policies/shop/checkout.yaml', '- eu-west-1', '- us-east-1');
edit('apps/storefront/app.yaml', 'replicas: 24', 'replicas: 30');
edit('apps/worker/app.yaml', 'replicas: 60', 'replicas: 40');
git('checkout', '-q', '-b', 'feature');
git('commit', '-q', '-a', '-m', 'Move checkout to the US');

function edit(name, from, to) {
  const file = path.join(repo, name);
  const text = fs.readFileSync(file, 'utf8');
  if (!text.includes(from)) throw new Error(`${name} has no \`${from}\``);
  fs.writeFileSync(file, text.replace(from, to));
}

fs.mkdirSync(path.join(root, 'docs/images'), { recursive: true });
await picture('page', ['diff', 'main...feature', '.'], 960);
await picture('what-if', ['whatif', '.', '--lose', 'eu-1'], 860);
const dump = writeDump('dump', repo, (cluster, objects) => {
  write(find(objects, 'Deployment', 'storefront'), '/spec/replicas', 40, 'kubectl-scale', '2026-11-26T23:12:00Z');
  write(find(objects, 'ConfigMap', 'storefront'), '/data/LOG_LEVEL', 'debug', 'kubectl-edit', `2026-11-2${cluster === 'eu-1' ? 1 : 4}T09:30:00Z`);
  return objects.filter((object) => cluster !== 'us-1' || object.kind !== 'Service');
});
await picture('drift', ['drift', '.', '-n', 'shop', '--observed', dump, '--quiet'], 860);
edit('policies/shop/checkout.yaml', '- us-east-1', '- us-east-9');
fs.writeFileSync(path.join(repo, 'apps/orphan.yaml'), 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: orphan, namespace: nowhere}\n');
await picture('check', ['check', '.'], 720);
await browser.close();
fs.rmSync(scratch, { recursive: true, force: true });

/** Takes the picture of a command's page, from its top. */
async function picture(name, args, height) {
  const file = path.join(scratch, `${name}.html`);
  fs.writeFileSync(file, run(federate, [...args, '-o', 'html'], repo, [0, 1, 2]));
  const page = await (await browser.newContext({ viewport: { width: 1240, height }, colorScheme: 'light' })).newPage();
  await page.goto(pathToFileURL(file).href);
  await new Promise((done) => setTimeout(done, 1000));
  await page.screenshot({ path: path.join(root, `docs/images/${name}.png`) });
  await page.close();
}
