// Makes docs/images/page.png, the picture of the README: the page of a change of examples/repo.
//
// FEDERATE_BIN=target/debug/federate NODE_MODULES=... node tests/page/screenshot.mjs

import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const require = createRequire(path.resolve(process.env.NODE_MODULES || path.join(root, 'target/ci/node/node_modules'), 'x.js'));
const { chromium } = require('playwright-core');
const federate = path.resolve(process.env.FEDERATE_BIN || path.join(root, 'target/debug/federate'));
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'federate-page-'));

fs.cpSync(path.join(root, 'examples/repo'), scratch, { recursive: true });
const git = (...args) => execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], { cwd: scratch, stdio: 'pipe' });
git('init', '-q', '-b', 'main');
git('add', '-A');
git('commit', '-q', '-m', 'base');
edit('policies/shop/checkout.yaml', '- eu-west-1', '- us-east-1');
edit('apps/storefront/app.yaml', 'replicas: 24', 'replicas: 30');
edit('apps/worker/app.yaml', 'replicas: 60', 'replicas: 40');
git('checkout', '-q', '-b', 'feature');
git('commit', '-q', '-a', '-m', 'Move checkout to the US');

function edit(name, from, to) {
  const file = path.join(scratch, name);
  const text = fs.readFileSync(file, 'utf8');
  if (!text.includes(from)) throw new Error(`${name} has no \`${from}\``);
  fs.writeFileSync(file, text.replace(from, to));
}

const html = spawnSync(federate, ['diff', 'main...feature', '.', '-o', 'html'], { cwd: scratch, encoding: 'utf8' }).stdout;
const file = path.join(scratch, 'page.html');
fs.writeFileSync(file, html);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox'] });
const page = await (await browser.newContext({ viewport: { width: 1240, height: 960 }, colorScheme: 'light' })).newPage();
await page.goto(pathToFileURL(file).href);
await new Promise((done) => setTimeout(done, 1000));
fs.mkdirSync(path.join(root, 'docs/images'), { recursive: true });
await page.screenshot({ path: path.join(root, 'docs/images/page.png') });
await browser.close();
fs.rmSync(scratch, { recursive: true, force: true });
