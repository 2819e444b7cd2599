// The pages of `plan`, `diff`, `whatif` and `federate serve`.

import assert from 'node:assert/strict';
import path from 'node:path';
import fs from 'node:fs';
import http from 'node:http';

import { HOSTILE, WIDTHS, browser, checkEverywhere, createRepo, federate, findViolations, keep, open, readData, replaceInFile, root, run, serve, test, until, writeFleet, writePage } from './harness.mjs';

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
  wide: createRepo('wide', (folder) => writeFleet(folder, 60, 20), (folder) => {
    replaceInFile(folder, 'templates.yaml', /replicas: \d+/g, 'replicas: 90');
    replaceInFile(folder, 'policy.yaml', '{matchLabels: {tier: gold}}', '{matchLabels: {tier: plain}}');
  }),
  nowhere: createRepo('nowhere', (folder) => writeFleet(folder, 3, 70), (folder) => replaceInFile(folder, 'policy.yaml', '{matchLabels: {tier: gold}}', '{matchLabels: {tier: none}}')),
  hostile: createRepo('hostile', (folder) => writeFleet(folder, 3, 2, 'plain'), (folder) => writeFleet(folder, 3, 2, HOSTILE)),
};

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
      const [text = '0'] = await page.locator(`.tile[data-flag=${flag}] .number`).allTextContents();
      assert.equal(Number(text), counts[count], flag);
    }
    await close();
  }
});

await test('each edit stands beside what follows from it, and the fleet adds up', async () => {
  const { page, close } = await open(pages.large);
  const rows = page.locator('[aria-labelledby=edits] li');
  assert.match(await rows.first().locator('.edit').textContent(), /PropagationPolicy shop\/web.*policy\.yaml:\d+/);
  assert.match(await rows.first().locator('.follows').textContent(), /⇄ move .*and 57 more objects/);
  assert.equal(await page.locator('#fleet .box').count(), 40);
  const names = await page.locator('#fleet .box').evaluateAll((boxes) => boxes.map((box) => box.title));
  const net = names.map((title) => Number((/([+−]\d+) replica/.exec(title)?.[1] ?? '0').replace('−', '-')));
  assert.ok(net.some((number) => number > 0) && net.reduce((sum, number) => sum + number) === 0, names.join('; '));
  await page.locator('#fleet .box').first().click();
  assert.equal(await page.locator('#filter').inputValue(), 'cluster:member-001');
  await page.locator('#fleet .box').first().click();
  assert.equal(await page.locator('#filter').inputValue(), '');
  await close();
});

await test('what moves is not new', async () => {
  const { page, close } = await open(pages.large);
  const number = (flag) => page.locator(`.tile[data-flag=${flag}] .number`).textContent();
  assert.equal(await number('moves'), '120');
  assert.equal(await page.locator('.tile[data-flag=added]').count(), 0);
  await close();
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

await test('the verdict is painted before the data is read', async () => {
  const { page, close } = await open(pages.large);
  const [paint, start] = await page.evaluate(() => ['first-contentful-paint', 'federate-start'].map((name) => performance.getEntriesByName(name)[0].startTime));
  assert.ok(paint < start, `painted after ${paint} ms, and read from ${start} ms`);
  await close();
});

await test('of columns, those are drawn that can be seen', async () => {
  const { page, complaints, close } = await open(writePage('diff-wide', ['diff', 'HEAD', '.', '-o', 'html'], repos.wide));
  await page.getByRole('button', { name: 'Clusters', exact: true }).click();
  await page.locator('#filter').fill('kind:deployment');
  const read = () => {
    const heads = new Map([...document.querySelectorAll('.matrix-head [aria-colindex]')].map((head) => [head.getAttribute('aria-colindex'), head.getBoundingClientRect()]));
    const cells = [...document.querySelectorAll('.row.item .cell.data')];
    return {
      columns: cells.map((cell) => Number(cell.getAttribute('aria-colindex'))),
      aligned: cells.every((cell) => Math.abs(cell.getBoundingClientRect().left - heads.get(cell.getAttribute('aria-colindex')).left) < 1),
    };
  };
  const start = await page.evaluate(read);
  assert.ok(start.aligned, 'cells do not stand below their clusters');
  assert.ok(start.columns.includes(3), 'the first cluster has no cell');
  assert.ok(!start.columns.includes(62), 'the last cluster has cells that cannot be seen');
  await page.evaluate(() => (document.querySelector('.matrix-box').scrollLeft = 1e6));
  await until(page, () => [...document.querySelectorAll('.row.item .cell.data')].some((cell) => Number(cell.getAttribute('aria-colindex')) === 62));
  const end = await page.evaluate(read);
  assert.ok(end.aligned, 'cells do not stand below their clusters');
  assert.ok(!end.columns.includes(3), 'the first cluster has cells that cannot be seen');
  await page.evaluate(() => (document.querySelector('.matrix-box').scrollLeft = 0));
  await until(page, () => [...document.querySelectorAll('.row.item .cell.data')].some((cell) => cell.getAttribute('aria-colindex') === '3'));
  await page.locator('.row.item .cell.first').nth(1).click();
  await page.keyboard.press('Escape');
  await page.keyboard.press('End');
  await until(page, () => document.activeElement.getAttribute('aria-colindex') === '62');
  await new Promise((done) => setTimeout(done, 100));
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-colindex')), '62', 'the focus is lost where columns are drawn');
  assert.equal(await page.locator('.matrix-rows [tabindex="0"]').count(), 1);
  assert.deepEqual(complaints, []);
  await close();
});

await test('what cannot all be named is shown in the matrix', async () => {
  const { page, complaints, close } = await open(writePage('diff-nowhere', ['diff', 'HEAD', '.', '-o', 'html'], repos.nowhere));
  assert.equal(await page.locator('section[aria-labelledby=edits] a[href^="#Deployment"]').count(), 3);
  await page.getByRole('button', { name: '67 more objects' }).click();
  assert.equal(await page.locator('.status').textContent(), '70 of 140 objects');
  assert.deepEqual(complaints, []);
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

await test('a printed page has the names of objects and the heads of columns', async () => {
  const { page, close } = await open(pages.large);
  await page.emulateMedia({ media: 'print' });
  const shown = await page.evaluate(() => [...document.querySelectorAll('main button[class]:not(.controls *)')].map((button) => [button.className, getComputedStyle(button).display]));
  assert.ok(shown.some(([name]) => name === 'region'), JSON.stringify(shown));
  for (const [name, display] of shown) assert.notEqual(display, 'none', name);
  assert.ok(await page.locator('.row.item .cell.first').first().isVisible());
  if (keep) await page.screenshot({ path: path.join(keep, 'printed.png'), fullPage: true });
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
  const data = await readData(page);
  assert.equal(data.kind, 'Page');
  const report = JSON.parse(run(federate, ['diff', 'HEAD', '.', '-o', 'json'], repos.large));
  assert.deepEqual(data.verdict, report.verdict);
  assert.deepEqual(data.changes, report.objects);
  assert.deepEqual(data.causes, report.causes);
  await close();
});

const readTitle = () => document.getElementById('sentence').textContent;
const startsWith = (text) => document.getElementById('sentence').textContent.startsWith(text);

/** What a page says of a scenario must be what the command says. */
async function compareWithCommand(page, repo, options) {
  const report = JSON.parse(run(federate, ['whatif', '.', ...options, '-o', 'json'], repo));
  const file = writePage('whatif-' + options.join('-').replace(/[^a-z0-9-]/gi, ''), ['whatif', '.', ...options, '-o', 'html'], repo);
  const expected = await open(file);
  const read = () => ({
    title: document.getElementById('sentence').textContent,
    tiles: [...document.querySelectorAll('.tile')].map((tile) => tile.textContent),
    timeline: document.querySelector('#timeline').parentElement.textContent,
    moves: document.querySelector('#moves .body').textContent,
    capacity: document.querySelector('#capacity .body')?.textContent,
  });
  assert.deepEqual(await page.evaluate(read), await expected.page.evaluate(read));
  await expected.close();
  const { timeline } = await page.evaluate(read);
  for (const stage of report.timeline) for (const event of stage.events) assert.ok(timeline.includes(event), event);
  return report;
}

await test('served: a click loses a cluster, and the answer is that of federate whatif', async () => {
  const { url, server, end } = await serve(repos.small);
  const { page, complaints, close } = await open(url, { server });
  assert.equal(await page.evaluate(() => location.href), server, 'the token stays in the address');
  const before = await page.evaluate(readTitle);
  await page.locator('.matrix-head button.name', { hasText: 'eu-1' }).click();
  await until(page, startsWith, 'After “lose eu-1”');
  const report = await compareWithCommand(page, repos.small, ['--lose', 'eu-1']);
  assert.ok(report.replicas.lost > 0);
  const lost = await page.evaluate(() => document.querySelector('.matrix-head .lost').textContent);
  assert.match(lost, /✕ eu-1, lost/);
  assert.ok(await page.locator('.row.item .cell.gone', { hasText: 'lost' }).count() > 0, 'no cell says that replicas are lost');
  // A second one is lost, too, with failover, and then both come back.
  await page.locator('#failover').check();
  await page.locator('.matrix-head button.name', { hasText: 'eu-2' }).click();
  await until(page, startsWith, 'After “lose eu-1, lose eu-2”');
  await compareWithCommand(page, repos.small, ['--lose', 'eu-1', '--lose', 'eu-2', '--gates', 'Failover=true']);
  await page.getByRole('button', { name: 'Back to now' }).click();
  await until(page, (text) => document.getElementById('sentence').textContent === text, before);
  assert.deepEqual(complaints, []);
  assert.equal(await end(), 0);
  await close();
});

await test('served: the token stays with the page: a reload, other pages and new tabs have it, and no other server', async () => {
  const { url, server, end } = await serve(repos.small);
  const { page, complaints, close } = await open(url + '/Deployment/shop/storefront', { server });
  assert.match(await page.locator('#pane-title').textContent(), /storefront/);
  const usable = () => document.documentElement.dataset.state === 'usable';
  await page.reload();
  await until(page, usable);
  assert.match(await page.locator('#pane-title').textContent(), /storefront/, 'the item of the address is open again');
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Check' }).click();
  await until(page, () => document.querySelector('.bar strong')?.textContent === 'federate check');
  // A link in a new tab, and an address that somebody types: this tab gives the token.
  const [tab] = await Promise.all([page.context().waitForEvent('page'), page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Plan' }).click({ modifiers: ['ControlOrMeta'] })]);
  await until(tab, usable);
  const typed = await page.context().newPage();
  await typed.goto(server + 'check');
  await until(typed, usable);
  assert.equal(await typed.locator('.bar strong').textContent(), 'federate check');
  // The address of another run in the same tab replaces the token.
  await Promise.all([typed.waitForEvent('load'), typed.evaluate(() => void (location.hash = '#token=abc'))]);
  await until(typed, () => document.getElementById('sentence').textContent.includes('the token is missing or wrong'));
  // Another port of this host gets nothing that opens the API.
  let heard;
  const other = http.createServer((request, response) => {
    heard = JSON.stringify(request.headers);
    response.end('<p>other</p>');
  });
  await new Promise((done) => other.listen(0, '127.0.0.1', done));
  const visit = await page.context().newPage();
  await visit.goto(`http://127.0.0.1:${other.address().port}/`);
  assert.ok(!heard.includes(url.split('#token=')[1]) && !heard.includes('cookie'), heard);
  assert.equal(await visit.evaluate(() => sessionStorage.length), 0);
  other.close();
  assert.deepEqual(await page.context().cookies(), []);
  assert.deepEqual(complaints, []);
  await close();
  // Who has no token sees nothing of the repo.
  const stranger = await browser.newContext();
  const empty = await stranger.newPage();
  await empty.goto(server);
  await until(empty, () => document.getElementById('sentence').textContent.includes('has no token'));
  if (keep) await empty.screenshot({ path: path.join(keep, 'served-without-token.png') });
  assert.ok(!(await empty.locator('body').innerText()).includes('storefront'));
  await stranger.close();
  await end();
});

/** The rows of the matrix, as they are shown. */
const readRows = () => [...document.querySelectorAll('.row.item')].map((row) => [...row.querySelectorAll('.cell')].map((cell) => cell.textContent).join(' | '));

await test('losses: a row shows what whatif says of that loss', async () => {
  const repo = repos.small;
  const report = JSON.parse(run(federate, ['whatif', '.', '--each', 'cluster', '-o', 'json'], repo));
  const { page, complaints, close } = await open(writePage('losses', ['whatif', '.', '--each', 'cluster', '-o', 'html'], repo));
  assert.match(await page.locator('#sentence').textContent(), /^If eu-1 is lost: .* 1 of 5 clusters can be lost/);
  assert.deepEqual(await page.locator('#losses tbody th').allTextContents(), report.rows.map((row) => row.lose));
  const missing = await page.locator('#losses tbody td:nth-child(5)').allTextContents();
  assert.deepEqual(missing.map(Number), report.rows.map((row) => row.replicas.missing));
  const now = await page.evaluate(readRows);
  for (const { lose } of report.rows) {
    const single = await open(writePage('lose-' + lose, ['whatif', '.', '--lose', lose, '-o', 'html'], repo));
    const button = page.getByRole('button', { name: 'Show the loss of ' + lose, exact: true });
    await button.click();
    assert.equal(await button.getAttribute('aria-pressed'), 'true');
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Show the loss of ' + lose);
    for (const shown of [page, single.page]) await shown.getByRole('button', { name: 'All', exact: true }).click();
    assert.deepEqual(await page.evaluate(readRows), await single.page.evaluate(readRows), lose);
    const moves = () => document.querySelector('#moves .body').textContent;
    await new Promise((done) => setTimeout(done, 200));
    assert.equal(await page.evaluate(moves), await single.page.evaluate(moves), lose);
    await single.close();
  }
  await page.getByRole('button', { name: 'Show what runs now' }).click();
  assert.deepEqual(await page.evaluate(readRows), now);
  assert.equal(await page.locator('#moves').isVisible(), false);
  await page.locator('.matrix-head').getByRole('button', { name: 'us-1', exact: true }).click();
  assert.equal(await page.getByRole('button', { name: 'Show the loss of us-1', exact: true }).getAttribute('aria-pressed'), 'true');
  await page.locator('.matrix-head').getByRole('button', { name: '✕ us-1', exact: true }).click();
  assert.deepEqual(await page.evaluate(readRows), now);
  assert.deepEqual(complaints, []);
  await close();
});

await test('losses: what moves is what whatif says', async () => {
  const options = ['--gates', 'Failover=true', '--taint', 'eu-2=outage:NoExecute'];
  const { page, close } = await open(writePage('losses-moving', ['whatif', '.', ...options, '--each', 'region', '-o', 'html'], repos.small));
  const data = await readData(page);
  const report = JSON.parse(run(federate, ['whatif', '.', ...options, '--each', 'region', '-o', 'json'], repos.small));
  assert.deepEqual(data.losses.rows.map((row) => row.placements.length), report.rows.map((row) => row.moved));
  assert.ok(report.rows.some((row) => row.moved > 0), 'nothing moves');
  await close();
});

await checkEverywhere('losses', writePage('losses-states', ['whatif', '.', '--each', 'cluster', '-o', 'html'], repos.small), [
  ['start', async () => {}],
  ['a loss', (page) => page.getByRole('button', { name: 'Show the loss of eu-1', exact: true }).click()],
  ['pane', (page) => page.locator('.row.item .cell.first').first().click()],
]);

await test('served: by keyboard, a cluster is resized and tainted, and a mistake is explained', async () => {
  const { url, server, end } = await serve(repos.small);
  const { page, complaints, close } = await open(url, { server });
  for (let stop = 0; stop < 30 && !(await page.evaluate(() => document.activeElement.id === 'event-kind')); stop += 1) await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'event-kind', 'the form is not reached');
  await page.keyboard.type('Resize');
  await page.keyboard.press('Tab');
  await page.keyboard.type('eu-1');
  await page.keyboard.press('Tab');
  await page.keyboard.type('10%');
  await page.keyboard.press('Enter');
  await until(page, startsWith, 'After “capacity eu-1=10%”');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'event-value', 'the focus is lost');
  await compareWithCommand(page, repos.small, ['--capacity', 'eu-1=10%']);
  await page.locator('#event-kind').selectOption('taint');
  await page.locator('#event-cluster').fill('eu-2');
  await page.locator('#event-value').fill('down:NoExecute');
  await page.keyboard.press('Enter');
  await until(page, startsWith, 'After “capacity eu-1=10%, taint eu-2=down:NoExecute”');
  await page.getByRole('button', { name: 'Undo: capacity eu-1' }).click();
  await until(page, startsWith, 'After “taint eu-2=down:NoExecute”');
  await compareWithCommand(page, repos.small, ['--taint', 'eu-2=down:NoExecute']);
  assert.deepEqual(complaints, []);
  await page.locator('#event-kind').selectOption('lose');
  await page.locator('#event-cluster').fill('<img>');
  await page.keyboard.press('Enter');
  await until(page, () => document.querySelector('.live-status.bad')?.textContent.includes('<img>'));
  assert.equal(await page.locator('img').count(), 0);
  // The browser reports that the server has refused it.
  assert.deepEqual(complaints.filter((text) => !text.includes('422')), []);
  await end();
  await close();
});

await test('served: a changed file is shown, and what was chosen stays chosen', async () => {
  const repo = createRepo('edited', (folder) => writeFleet(folder, 20, 10), () => undefined);
  const { url, server, end } = await serve(repo);
  const { page, complaints, close } = await open(url + '/Deployment/shop/app-3', { server });
  await until(page, () => document.getElementById('pane').textContent.includes('How it was decided') || document.getElementById('pane').textContent.includes('Defined in'));
  assert.match(await page.locator('#pane').textContent(), /templates\.yaml:\d+/, 'the explanation is missing');
  await page.locator('#filter').fill('app-3');
  const total = () => page.locator('.row.item .total').first().textContent();
  assert.equal((await total()).trim(), '9');
  replaceInFile(repo, 'templates.yaml', 'replicas: 9', 'replicas: 21');
  await until(page, () => document.querySelector('.row.item .total')?.textContent.trim() === '21');
  assert.match(await page.locator('#pane-title').textContent(), /app-3$/);
  assert.equal(await page.locator('#filter').inputValue(), 'app-3');
  assert.match(await page.locator('.status').textContent(), /^2 of 20 objects$|^1 of 20 objects$/);
  // What has changed since the commit.
  await page.locator('#revision').fill('main');
  await page.getByRole('button', { name: 'Compare' }).click();
  await until(page, () => document.querySelector('.bar strong').textContent === 'federate diff');
  const { sentence } = JSON.parse(run(federate, ['diff', '.', '--from', 'main', '-o', 'json'], repo)).verdict;
  assert.equal(await page.evaluate(readTitle), sentence);
  await until(page, () => document.getElementById('values').textContent.includes('/spec/replicas'));
  // A scenario starts from the files as they are, which is said where a revision was shown.
  assert.equal(await page.locator('.live-start').isVisible(), false);
  await page.locator('#filter').fill('');
  await page.locator('#event-cluster').fill('member-001');
  await page.locator('#event-cluster').press('Enter');
  await until(page, startsWith, 'After “lose member-001”');
  assert.match(await page.locator('.live-start').textContent(), /starts from the plan of now.*with main/);
  await compareWithCommand(page, repo, ['--lose', 'member-001']);
  await page.getByRole('button', { name: 'Back to now' }).click();
  await until(page, () => document.querySelector('.bar strong').textContent === 'federate plan');
  assert.equal(await page.locator('.live-start').isVisible(), false);
  assert.deepEqual(complaints, []);
  await end();
  await close();
});

for (const width of WIDTHS) {
  for (const theme of ['light', 'dark']) {
    await test(`served at ${width}, ${theme}: nothing to complain of, accessible, no sideways scroll`, async () => {
      const repo = width === 900 ? repos.large : repos.small;
      const { url, server, end } = await serve(repo);
      const { page, complaints, close } = await open(url, { width, theme, server });
      const cluster = width === 900 ? 'member-002' : 'eu-1';
      const states = [
        ['start', async () => {}],
        ['lost', async () => {
          await page.locator('#event-cluster').fill(cluster);
          await page.keyboard.press('Enter');
          await until(page, startsWith, 'After “lose');
          if (width === 900) await page.getByRole('button', { name: 'Clusters', exact: true }).click();
        }],
        ['pane', async () => {
          await page.locator('.row.item .cell.first').first().click();
          await until(page, () => document.getElementById('pane').textContent.includes('Defined in'));
        }],
      ];
      for (const [state, reach] of states) {
        await reach();
        await new Promise((done) => setTimeout(done, 150));
        if (keep) await page.screenshot({ path: path.join(keep, `served-${width}-${theme}-${state}.png`), fullPage: state !== 'pane' });
        assert.deepEqual(await findViolations(page), [], state);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        assert.equal(wide, 0, `${state} scrolls sideways by ${wide}`);
      }
      assert.deepEqual(complaints, []);
      await end();
      await close();
    });
  }
}

await test('served: text of a repo is text', async () => {
  const { url, server, end } = await serve(repos.hostile);
  const { page, complaints, close } = await open(url + '/ConfigMap/shop/settings-0', { server });
  await page.locator('#event-cluster').fill('member-001');
  await page.keyboard.press('Enter');
  await until(page, startsWith, 'After “lose member-001”');
  await page.getByRole('button', { name: 'Back to now' }).click();
  await page.locator('#revision').fill('main');
  await page.getByRole('button', { name: 'Compare' }).click();
  await until(page, () => document.querySelector('.bar strong').textContent === 'federate diff');
  assert.ok((await page.locator('#pane').textContent()).includes('</script><img src=x onerror=alert(1)>'));
  assert.ok(!/[\u202e\u001b]/.test(await page.locator('body').textContent()), 'control characters are shown as they are');
  assert.equal(await page.locator('img').count(), 0);
  assert.deepEqual(complaints, []);
  await end();
  await close();
});
