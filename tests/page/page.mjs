// The pages of `-o html`, of `federate serve` and of the loop in a real browser: what they show, how they are used by keyboard,
// what they allow, and how they look.
//
// Run by `.ci/run page`, or by hand: FEDERATE_BIN=target/debug/federate NODE_MODULES=... node tests/page/page.mjs [SUITE...]
// It needs Chromium (CHROMIUM, or `chromium` on the path), and the packages playwright-core and axe-core in NODE_MODULES.
// UPDATE_SHOTS=1 renews the kept pictures in tests/page/shots, KEEP_PAGES=DIR keeps pages and screenshots,
// ONLY=TEXT runs the tests with this text in their names.

import fs from 'node:fs';

import { browser, results, scratch } from './harness.mjs';

const SUITES = ['placements', 'drift', 'check', 'syncs', 'migrate', 'shots'];
const asked = process.argv.slice(2);
for (const suite of asked.length > 0 ? asked : SUITES) await import(`./${suite}.mjs`);

await browser.close();
fs.rmSync(scratch, { recursive: true, force: true });
console.log(`${results.passed} passed, ${results.failed} failed`);
process.exit(results.failed > 0 || results.passed === 0 ? 1 : 0);
